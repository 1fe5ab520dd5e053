package tier

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Node is one server of a deployment, asked by itself: the only one, or one of a cluster's, replicas too.
type Node struct {
	Addr   string
	client rueidis.Client
	call   func(context.Context) (context.Context, context.CancelFunc)
}

// Nodes are the servers that the client knows of now, by address.
func (c *Client) Nodes() []Node {
	var nodes []Node
	for addr, client := range c.pipe.Nodes() {
		nodes = append(nodes, Node{Addr: addr, client: client, call: c.deadline})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Addr, b.Addr) })
	return nodes
}

// Do sends a command that changes nothing and is about no key. The error is that of Wrap.
func (n Node) Do(ctx context.Context, words ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := n.call(ctx)
	defer cancel()
	m, err := n.client.Do(ctx, n.client.B().Arbitrary(words...).Build()).ToMessage()
	return m, Wrap(words[0], n.Addr, err)
}

package tier

import (
	"context"
	"slices"
	"strings"
	"sync"

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

// primary is the address of the one server that a client calls; "" of a cluster, whose servers refuse what is another's.
// Sentinels change it. The one before takes writes for seconds more, which are lost when it follows the other: who has a
// connection of its own there gives it up.
func primary(c rueidis.Client) (addr string) {
	nodes := c.Nodes()
	if len(nodes) > 1 {
		return ""
	}
	for addr = range nodes {
	}
	return addr
}

// DialNodes connects to each server that a URL names, by itself and past the version fence: for questions about no key, when
// Dial fails and somebody asks why. Servers that let nobody in are left out, and so are all of a URL of sentinels. The caller
// calls closeAll. Errors: ErrURL, and that of ctx.
func DialNodes(ctx context.Context, url string, opts Options) (nodes []Node, closeAll func(), err error) {
	opts.setDefaults()
	opt, err := clientOption(url, opts.TLS)
	if err != nil || opt.Sentinel.MasterSet != "" {
		return nil, func() {}, err
	}
	opt.ForceSingleClient, opt.DisableCache, opt.DisableRetry = true, true, true
	opt.ClientName, opt.ClientSetInfo = opts.ClientName, rueidis.DisableClientSetInfo
	opt.Dialer.Timeout, opt.ConnWriteTimeout = opts.CallTimeout, opts.CallTimeout
	addrs := opt.InitAddress
	clients := make([]rueidis.Client, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			one := opt
			one.InitAddress = []string{addr}
			if client, err := rueidis.NewClient(one); err == nil {
				clients[i] = client
			}
		})
	}
	wg.Wait()
	c := &Client{opts: opts}
	for i, client := range clients {
		if client != nil {
			nodes = append(nodes, Node{Addr: addrs[i], client: client, call: c.deadline})
		}
	}
	return nodes, func() {
		for _, n := range nodes {
			n.client.Close()
		}
	}, ctx.Err()
}

// Do sends a command that changes nothing and is about no key. The error is that of Wrap.
func (n Node) Do(ctx context.Context, words ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := n.call(ctx)
	defer cancel()
	m, err := n.client.Do(ctx, n.client.B().Arbitrary(words...).Build()).ToMessage()
	return m, Wrap(words[0], n.Addr, err)
}

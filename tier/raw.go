package tier

import (
	"context"
	"fmt"
	"net"
)

// Raw is a connection of its own to the server that serves a key, past the fence and logged in, which speaks the protocol
// as it is before a server is told of a newer one. It is for whoever measures what a server does with bytes that no client
// library has touched: nothing else is sent on it, and nothing of what this package promises of calls holds there. The
// caller closes it.
func (c *Client) Raw(ctx context.Context, key string) (net.Conn, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	err := error(ErrUnreachable)
	for _, n := range c.Nodes() {
		var conn net.Conn
		if conn, err = c.rawTo(ctx, n.Addr, key); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("tier: raw connection for %s: %w", key, err)
}

// rawTo connects to one server, and asks it for the key: one of a cluster that does not serve it says so.
func (c *Client) rawTo(ctx context.Context, addr, key string) (net.Conn, error) {
	conn, err := c.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	_, _, err = newTalk(conn).ask([]string{"TYPE", key})
	if !stop() {
		err = unreachable("TYPE", key, ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

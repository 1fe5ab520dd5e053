package tier

import (
	"context"

	"github.com/redis/rueidis"
)

// Listen subscribes to a sharded channel and hands over each message, until ctx ends or the connection does: then, and when a
// slot moves, it returns, and messages are lost until it is called again. Confirmed is called when the server has subscribed it, which is when to look at
// what may have been missed. Neither function may block.
//
// It has a connection of its own: servers give up those that subscribe as soon as so much waits for them (client-output-buffer-limit
// pubsub) as a read of jobs may bring.
func (c *Client) Listen(ctx context.Context, channel string, confirmed func(), got func(message string)) error {
	conn, _ := c.block.Dedicate()
	c.dedicated.Store(conn, true)
	defer func() {
		c.dedicated.Delete(conn)
		conn.Close()
	}()
	if c.closed.Load() { // it may not have seen the connection
		return c.wrap("SSUBSCRIBE", channel, rueidis.ErrClosing)
	}
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			confirmed()
		}
	})
	err := conn.Receive(hooked, conn.B().Ssubscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { got(m.Message) })
	if ctx.Err() != nil {
		return nil
	}
	return c.wrap("SSUBSCRIBE", channel, err)
}

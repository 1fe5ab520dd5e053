package tier

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"
)

// Guard runs a command only while a field of a hash holds a value, as a script would that compares it first, but without
// handing the command's arguments through Lua, which doubles what a call of hundreds of them costs the server. It does so
// with WATCH and MULTI on a connection of its own: in one round trip, since what runs a command opens the transaction for the next
// one, and in one more the first time. So it pays for long commands only.
//
// A Guard is there to save work, not to be relied on: Do may always answer that it has not run the command, and the caller
// runs the script that it stands for.
type Guard struct {
	client     *Client
	key, field string

	mu     sync.Mutex
	conn   rueidis.DedicatedClient // nil: none yet, or the last one failed; else it has a transaction open
	at     string                  // the client's primary when it was made
	held   string                  // what the field held when that was opened
	closed bool                    // or of no use: the user may not watch
}

// Guard makes a guard of a field. It sends nothing. The caller closes it.
func (c *Client) Guard(key, field string) *Guard { return &Guard{client: c, key: key, field: field} }

// Close gives the connection up. What comes later is not run.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.drop()
}

// Do runs a command on a key of the same slot if the field holds the value. Ran false without an error says that it had
// no effect, and that the caller has to do it in another way: the field holds something else, something in its hash
// changed meanwhile, or the server does not let the user do it like this. The error is that of Client.Do.
func (g *Guard) Do(ctx context.Context, value string, cmd rueidis.Completed) (m rueidis.RedisMessage, ran bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.client.closed.Load() {
		return m, false, nil
	}
	op := cmd.Commands()[0]
	ctx, cancel := g.client.deadline(ctx)
	defer cancel()
	open, err := g.open(ctx, value)
	if err != nil || !open {
		return m, false, g.client.wrap("WATCH", g.key, err)
	}
	m, ran, err = g.exec(ctx, cmd)
	return m, ran, g.client.wrap(op, g.key, err)
}

// open begins a transaction that is void if the hash changes from now on, unless one is open, and reports whether the field holds
// the value. A command goes out only once the server has said that the transaction is open: refused a MULTI, it would run
// whatever follows at once.
func (g *Guard) open(ctx context.Context, value string) (bool, error) {
	if g.conn != nil && (g.held != value || g.at != primary(g.client.block)) {
		g.drop()
	}
	if g.conn == nil {
		g.at = primary(g.client.block)
		g.conn, _ = g.client.block.Dedicate()
		g.client.dedicated.Store(g, true)
		if err := g.opened(g.conn.DoMulti(ctx, g.begin()...)); err != nil {
			return false, g.refused(err)
		}
	}
	if g.conn == nil || g.held != value {
		g.drop()
		return false, nil
	}
	return true, nil
}

func (g *Guard) begin() []rueidis.Completed {
	b := g.conn.B()
	return []rueidis.Completed{b.Watch().Key(g.key).Build(), b.Hget().Key(g.key).Field(g.field).Build(), b.Multi().Build()}
}

// opened looks at the replies to begin. Where they are not as they should be, there is no transaction.
func (g *Guard) opened(r []rueidis.RedisResult) (err error) {
	for _, r := range r {
		if err = r.Error(); err != nil {
			g.drop()
			if rueidis.IsRedisNil(err) { // there is no such field
				return nil
			}
			return err
		}
	}
	g.held, err = r[1].ToString()
	return err
}

// exec ends the transaction with the command in it, and opens the next one.
func (g *Guard) exec(ctx context.Context, cmd rueidis.Completed) (m rueidis.RedisMessage, ran bool, err error) {
	r := g.conn.DoMulti(ctx, append([]rueidis.Completed{cmd, g.conn.B().Exec().Build()}, g.begin()...)...)
	if err := g.opened(r[2:]); err != nil {
		_ = g.refused(err) // what is wrong shows when it is asked for
	}
	replies, err := r[1].ToArray()
	switch {
	case rueidis.IsRedisNil(err):
		return m, false, nil
	case err != nil:
		g.drop()
		return m, false, g.refused(err)
	case len(replies) == 0:
		g.drop()
		return m, false, nil
	}
	m = replies[len(replies)-1] // the library may have sent a ping before it
	return m, true, m.Error()
}

// refused is nil for an answer of the server: then nothing has run, and the script will tell what is wrong. A server that
// does not let the user watch is not asked again.
func (g *Guard) refused(err error) error {
	if _, ok := rueidis.IsRedisErr(err); !ok {
		return err
	}
	if errors.Is(Wrap("WATCH", g.key, err), ErrPermission) {
		g.closed = true
	}
	return nil
}

func (g *Guard) drop() {
	if g.conn != nil {
		g.conn.Close()
		g.conn = nil
		g.client.dedicated.Delete(g)
	}
}

package tier

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// gate stands where connections are made. It counts those that were made and lost, and makes none for a call that has to
// compare the fence first.
type gate struct {
	changes atomic.Uint64
	sealed  atomic.Bool // once the client is dialed; what the library connects by itself, in a cluster, passes all the same

	mu      sync.Mutex
	dialing context.Context // of Dial: connections that are made meanwhile end with it
	stops   []func() bool
}

// open lets connections be made until ctx ends or close is called.
func (g *gate) open(ctx context.Context) { g.dialing = ctx }

func (g *gate) close() {
	g.sealed.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, stop := range g.stops {
		stop()
	}
	g.dialing, g.stops = nil, nil
}

// bind makes a connection end with the Dial that it was made for.
func (g *gate) bind(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dialing != nil {
		g.stops = append(g.stops, context.AfterFunc(g.dialing, func() { conn.Close() }))
	}
}

// noDial is the key of a context whose call gets no new connection.
type noDial struct{}

// errUnfenced says that nothing was sent, since a connection would have had to be made.
var errUnfenced = errors.New("a new connection, whose server was not asked for its version")

// before puts the gate before the way in which connections are made.
func (g *gate) before(opt *rueidis.ClientOption) {
	dial := opt.DialCtxFn
	if dial == nil {
		dial = dialTCP
	}
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		if g.sealed.Load() && ctx.Value(noDial{}) != nil {
			return nil, errUnfenced
		}
		if !g.sealed.Load() { // the library asks for the first ones without a context
			ctx = g.first(ctx)
		}
		conn, err := dial(ctx, addr, d, cfg)
		if err != nil {
			return nil, err
		}
		g.changes.Add(1)
		g.bind(conn)
		return &watched{Conn: conn, gate: g}, nil
	}
}

func (g *gate) first(ctx context.Context) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dialing != nil {
		return g.dialing
	}
	return ctx
}

func dialTCP(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	if cfg != nil {
		return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// watched is a connection whose end is noticed before the client library hears of it.
type watched struct {
	net.Conn
	gate *gate
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.gate.changes.Add(1)
	}
	return n, err
}

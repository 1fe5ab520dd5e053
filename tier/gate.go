package tier

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/redis/rueidis"
)

// gate is the way in which all connections are made. The client library, which connects when it likes (for a call, after
// a failover, to learn the slots of a cluster), gets none whose server was not asked for its version first.
type gate struct {
	fence fence

	mu      sync.Mutex
	dialing context.Context // of Dial: connections that are made meanwhile end with it
	stops   []func() bool
	refused *VersionError // by the last comparison
}

// open binds the connections that are made until close is called to ctx.
func (g *gate) open(ctx context.Context) { g.dialing = ctx }

func (g *gate) close() {
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

// before puts the gate before the way in which connections are made. Those to sentinels pass: they hold no data.
func (g *gate) before(opt *rueidis.ClientOption) {
	dial := opt.DialCtxFn
	if dial == nil {
		dial = dialTCP
	}
	opt.Sentinel.Dialer = opt.Dialer
	opt.Sentinel.Dialer.FallbackDelay = toSentinel
	g.fence.login = login(opt)
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(g.first(ctx), d.Timeout)
		defer cancel()
		connect := func(addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr, d, cfg)
			if err != nil {
				return nil, unreachable("connect", "", err)
			}
			return conn, nil
		}
		conn, err := connect(addr)
		if err == nil && d.FallbackDelay != toSentinel {
			err = g.note(g.fence.check(ctx, conn, connect))
		}
		if err != nil {
			return nil, err
		}
		g.bind(conn)
		return conn, nil
	}
}

// note keeps the outcome of a comparison for because.
func (g *gate) note(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if version := (*VersionError)(nil); errors.As(err, &version) || err == nil {
		g.refused = version
	}
	return err
}

// because is why a call found no connection: after a failover the client library stays with the address of the server
// that is gone while the next one is refused, and reports only that.
func (g *gate) because(err error) error {
	if classOf(err) != ErrUnreachable {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil {
		return g.refused
	}
	return err
}

// toSentinel marks the dialer of connections to sentinels: the library tells by nothing else what it dials. The value is
// none that has a meaning of its own.
const toSentinel = 300_000_001 // ns; the default is 300 ms

// first is the context of Dial while it lasts: the library asks for the first connections without one.
func (g *gate) first(ctx context.Context) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dialing != nil {
		return g.dialing
	}
	return ctx
}

func dialTCP(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil || cfg == nil {
		return conn, err
	}
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		var record tls.RecordHeaderError
		if silent(err) || errors.As(err, &record) {
			err = fmt.Errorf("TLS handshake: %w: %w", err, errBothEnds)
		}
		return nil, err
	}
	return secured, nil
}

// silent reports whether an error only says that nothing, or nothing more, came from the other end.
func silent(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &op) && op.Timeout()
}

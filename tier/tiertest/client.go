package tiertest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// Dial connects to a server, or through a proxy, until the test ends.
func Dial(t testing.TB, s interface{ URL() string }) *tier.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	c, err := tier.Dial(ctx, s.URL(), tier.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// auditLimit bounds an audit that hangs. One of many partitions is thousands of calls, beside other tests.
const auditLimit = 2 * time.Minute

// AuditedScope is a Scope that is audited when the test ends, with its partitions,
// and then removed from the server, if it is a shared one.
func AuditedScope(t testing.TB, s interface{ URL() string }) string {
	t.Helper()
	scope := Scope(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
		defer cancel()
		c, raw, done, err := auditor(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		scopes, err := c.Scopes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		scopes = slices.DeleteFunc(scopes, func(other string) bool { return !strings.HasPrefix(other, scope+".") })
		for _, one := range append(scopes, scope) {
			if err := stream.Check(ctx, c, one); err != nil {
				t.Errorf("audit of scope %s: %v", one, err)
			}
			if err := queue.Check(ctx, c, one); err != nil {
				t.Errorf("audit of queue %s: %v", one, err)
			}
		}
		if raw == nil {
			return
		}
		for _, one := range append(scopes, scope) {
			if err := purge(ctx, raw, one); err != nil {
				t.Errorf("purge of scope %s: %v", one, err)
			}
		}
	})
	return scope
}

// audit is what looks at a server when a test ends: connections that are made for the first audit, and last as long as the server.
type audit struct {
	once   sync.Once
	client *tier.Client
	raw    rueidis.Client
	err    error
}

func (a *audit) open(ctx context.Context, s *Server) (*tier.Client, rueidis.Client, error) {
	a.once.Do(func() {
		if a.client, a.err = tier.Dial(ctx, s.URL(), tier.Options{}); a.err != nil {
			return
		}
		if a.raw, a.err = Raw(s); a.err != nil {
			a.client.Close()
		}
	})
	return a.client, a.raw, a.err
}

// close ends the connections, if there are any; nobody opens them afterwards.
func (a *audit) close() {
	if a == nil {
		return
	}
	a.once.Do(func() { a.err = errors.New("tiertest: the server has ended") })
	if a.err == nil {
		a.client.Close()
		a.raw.Close()
	}
}

// auditor is who audits. Only a single server, which can be purged, has a raw connection.
func auditor(ctx context.Context, s interface{ URL() string }) (c *tier.Client, raw rueidis.Client, done func(), err error) {
	single, ok := s.(*Server)
	if ok && single.audit != nil {
		c, raw, err = single.audit.open(ctx, single)
		return c, raw, func() {}, err
	}
	if c, err = tier.Dial(ctx, s.URL(), tier.Options{}); err != nil || !ok {
		return c, nil, func() { c.Close() }, err
	}
	if raw, err = Raw(single); err != nil {
		c.Close()
	}
	return c, raw, func() { c.Close(); raw.Close() }, err
}

// purge deletes a scope's keys and its node number: a deployment has 512 of them, and tests make more scopes.
func purge(ctx context.Context, raw rueidis.Client, scope string) error {
	number, err := raw.Do(ctx, raw.B().Hget().Key(tier.NodesKey).Field(tier.ScopeNumberField(scope)).Build()).AsInt64()
	if err == nil {
		fields := []string{tier.ScopeNumberField(scope), tier.NumberField(int(number))}
		err = raw.Do(ctx, raw.B().Hdel().Key(tier.NodesKey).Field(fields...).Build()).Error()
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	var cursor uint64
	for {
		page, err := raw.Do(ctx, raw.B().Scan().Cursor(cursor).Match(tier.ScopePattern(scope)).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range page.Elements {
			if err := raw.Do(ctx, raw.B().Del().Key(key).Build()).Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// Raw connects past package tier, as a program that knows nothing of it does. The caller closes it.
func Raw(s interface{ URL() string }) (rueidis.Client, error) {
	opt, err := rueidis.ParseURL(s.URL())
	if err != nil {
		return nil, err
	}
	opt.DisableCache = true
	opt.ForceSingleClient = true // of one node, in cluster mode too
	small(&opt)
	opt.ConnWriteTimeout = 10 * time.Second
	return rueidis.NewClient(opt)
}

// small makes a client one of a test, which opens thousands and sends little: by default a connection has buffers of a mebibyte, which
// the race detector shadows fourfold.
func small(opt *rueidis.ClientOption) {
	opt.PipelineMultiplex = -1 // one connection
	opt.ReadBufferEachConn, opt.WriteBufferEachConn, opt.RingScaleEachConn = 16<<10, 16<<10, 8
}

package tiertest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
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

// AuditedScope is a Scope that is audited when the test ends, with its partitions,
// and then removed from the server, if it is a shared one.
func AuditedScope(t testing.TB, s interface{ URL() string }) string {
	t.Helper()
	scope := Scope(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		c, err := tier.Dial(ctx, s.URL(), tier.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
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
		single, ok := s.(*Server)
		if !ok {
			return
		}
		for _, one := range append(scopes, scope) {
			if err := purge(ctx, single, one); err != nil {
				t.Errorf("purge of scope %s: %v", one, err)
			}
		}
	})
	return scope
}

// purge deletes a scope's keys and its node number: a deployment has 512 of them, and tests make more scopes.
func purge(ctx context.Context, s *Server, scope string) error {
	raw, err := Raw(s)
	if err != nil {
		return err
	}
	defer raw.Close()
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
	opt.ConnWriteTimeout = 10 * time.Second
	return rueidis.NewClient(opt)
}

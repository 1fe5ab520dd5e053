package tier_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

const soon = 10 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fixture is a server, a client of it, and a connection past package tier.
type fixture struct {
	t      testing.TB
	ctx    context.Context
	server *tiertest.Server
	client *tier.Client
	raw    rueidis.Client
}

func setUp(t testing.TB, s *tiertest.Server) *fixture { return setUpThrough(t, s, s) }

func setUpThrough(t testing.TB, s *tiertest.Server, via interface{ URL() string }) *fixture {
	f := &fixture{t: t, ctx: testContext(t), server: s}
	var err error
	f.raw, err = tiertest.Raw(s)
	require.NoError(t, err)
	t.Cleanup(f.raw.Close)
	f.client = tiertest.Dial(t, via)
	return f
}

// text sends a command past package tier, whose first argument, if any, is the key, and returns the answer as text.
func (f *fixture) text(cmd string, args ...string) string {
	f.t.Helper()
	b := f.raw.B().Arbitrary(cmd)
	c := b.Args(args...).Build()
	if len(args) > 0 && !keyless[cmd] {
		c = f.raw.B().Arbitrary(cmd).Keys(args[0]).Args(args[1:]...).Build()
	}
	m, err := f.raw.Do(f.ctx, c).ToMessage()
	if !rueidis.IsRedisNil(err) {
		require.NoError(f.t, err, "%s %.80q", cmd, args)
	}
	if m.IsInt64() {
		n, _ := m.AsInt64()
		return time.Duration(n).String()
	}
	text, _ := m.ToString()
	return text
}

var keyless = map[string]bool{"CONFIG": true, "ACL": true, "CLIENT": true, "REPLICAOF": true, "FLUSHALL": true, "CLUSTER": true, "SCRIPT": true}

func set(c *tier.Client, key string) rueidis.Completed {
	return c.B().Set().Key(key).Value("x").Build()
}

package tier_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestFenceIsClaimed (CONFORMANCE 1): a new deployment gets exactly our version, from many clients at once, too.
func TestFenceIsClaimed(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					c, err := tier.Dial(t.Context(), s.URL(), tier.Options{})
					if err != nil {
						t.Error(err)
						return
					}
					c.Close()
				})
			}
			wg.Wait()
			f := setUp(t, s)
			require.Equal(t, "echomq:3.0.0", f.text("GET", "{emq}:version"))
		})
	}
}

// TestFenceIsCompared: another minor version is accepted and left alone; another major, and what is no version, refused
// with what was found.
func TestFenceIsCompared(t *testing.T) {
	tests := []struct {
		found string
		ok    bool
	}{
		{"echomq:3.0.0", true},
		{"echomq:3.0.1", true},
		{"echomq:3.9.12", true},
		{"echomq:3", true},
		{"echomq:4.0.0", false},
		{"echomq:2.9.9", false},
		{"echomq:30.0.0", false},
		{"echomq:3x.0.0", false},
		{"bullmq:3.0.0", false},
		{"3.0.0", false},
		{"", false},
		{"\x00", false},
	}
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	for _, tt := range tests {
		t.Run(tt.found, func(t *testing.T) {
			f.text("SET", tier.VersionKey, tt.found)
			c, err := tier.Dial(f.ctx, f.server.URL(), tier.Options{})
			if tt.ok {
				require.NoError(t, err)
				c.Close()
			} else {
				var version *tier.VersionError
				require.ErrorAs(t, err, &version)
				require.Equal(t, tt.found, version.Found)
				require.False(t, tier.OutcomeUnknown(err))
			}
			require.Equal(t, tt.found, f.text("GET", tier.VersionKey))
		})
	}
	f.text("DEL", tier.VersionKey)
	f.text("HSET", tier.VersionKey, "a", "b")
	_, err := tier.Dial(f.ctx, f.server.URL(), tier.Options{})
	require.ErrorIs(t, err, tier.ErrWrongType)
	require.ErrorContains(t, err, tier.VersionKey)
}

// TestFenceOnReconnect: behind a new connection stands a server of another version: nothing is written to it, neither by
// a command nor by a script; and when it is of ours again, the client goes on.
func TestFenceOnReconnect(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			proxy := tiertest.NewProxy(t, s)
			f := setUpThrough(t, s, proxy)
			script := tier.NewScript("write", "#!lua\nreturn redis.call('SET', KEYS[1], 'x')")
			for round := range 30 {
				key := fmt.Sprintf("{round}%d", round)
				f.text("SET", tier.VersionKey, tier.Wire)
				tiertest.Eventually(t, soon, func() (bool, string) {
					_, err := f.client.Do(f.ctx, "{round}", set(f.client, "{round}"))
					return err == nil, fmt.Sprint(err)
				})
				f.text("SET", tier.VersionKey, "echomq:4.0.0")
				proxy.Cut()
				calls := []func() error{
					func() error { _, err := f.client.Do(f.ctx, key, set(f.client, key)); return err },
					func() error { _, err := f.client.DoMulti(f.ctx, key, set(f.client, key)); return err },
					func() error {
						_, err := f.client.Run(f.ctx, tier.Call{Script: script, Keys: []string{key}})
						return err
					},
				}
				for i := range calls {
					err := calls[(i+round)%len(calls)]()
					var version *tier.VersionError
					if !errors.As(err, &version) {
						require.Error(t, err)
						require.True(t, tier.Classify(err) != nil && tier.Classify(err).Reaction == tier.BackOff, "%v", err)
					}
				}
				require.Empty(t, f.text("GET", key), "round %d", round)
			}
		})
	}
}

// TestFenceOfAnEmptiedServer is claimed again.
func TestFenceOfAnEmptiedServer(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	f.text("FLUSHALL")
	require.NoError(t, s.Restart(f.ctx))
	tiertest.Eventually(t, soon, func() (bool, string) {
		_, err := f.client.Do(f.ctx, "k", set(f.client, "k"))
		return err == nil, fmt.Sprint(err)
	})
	raw := setUp(t, s)
	require.Equal(t, tier.Wire, raw.text("GET", tier.VersionKey))
}

// TestFenceOfWaits: a read that waits is not started at a server of another version.
func TestFenceOfWaits(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	f := setUpThrough(t, s, proxy)
	f.text("SET", tier.VersionKey, "echomq:4.0.0")
	proxy.Cut()
	tiertest.Eventually(t, soon, func() (bool, string) {
		cmd := f.client.B().Blpop().Key("list").Timeout(0.01).Build()
		_, err := f.client.Wait(f.ctx, "list", 10*time.Millisecond, cmd)
		var version *tier.VersionError
		return errors.As(err, &version), fmt.Sprint(err)
	})
	require.Zero(t, proxy.Commands()["BLPOP"])
}

// TestFenceIsComparedOnce for each connection, not for each call.
func TestFenceIsComparedOnce(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	f := setUpThrough(t, s, proxy)
	key := tiertest.Scope(t)
	for range 50 {
		_, err := f.client.Do(f.ctx, key, set(f.client, key))
		require.NoError(t, err)
	}
	_, err := f.client.Do(f.ctx, key, f.client.B().Del().Key(key).Build())
	require.NoError(t, err)
	require.LessOrEqual(t, proxy.Commands()["GET"], 3)
}

package stream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestSeen: a key is new to the first who notes it, however often that one asks, and seen by all others, for the window of the first; sets
// of other names know nothing of it.
func TestSeen(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		cfg := stream.SeenConfig{Scope: f.addr().Scope, Name: "mails", Window: time.Minute}
		mails, err := stream.NewSeen(f.client, cfg)
		require.NoError(t, err)
		cfg.Name = "calls"
		calls, err := stream.NewSeen(f.client, cfg)
		require.NoError(t, err)
		is := func(want bool, set *stream.Seen, key, who string) {
			t.Helper()
			first, err := set.First(f.ctx, key, who)
			require.NoError(t, err)
			require.Equal(t, want, first)
		}
		is(true, mails, "k", "one")
		is(true, mails, "k", "one")
		is(false, mails, "k", "other")
		is(true, mails, "\x00 {another}", "other")
		is(true, calls, "k", "other")

		at := tier.NotedKey(f.addr().Scope, "mails", "k")
		f.do("PEXPIRE", at, "5000")
		is(false, mails, "k", "other")
		is(true, mails, "k", "one")
		m := f.do("PTTL", at)
		left, err := m.AsInt64()
		require.NoError(t, err)
		require.LessOrEqual(t, left, int64(5000), "the window is not prolonged")
		require.Positive(t, left)
		f.do("PEXPIRE", at, "-1") // the window ends
		is(true, mails, "k", "other")
		is(false, mails, "k", "one")

		for _, bad := range [][2]string{{"", "who"}, {"k", ""}, {"k", strings.Repeat("w", 1025)}} {
			_, err := mails.First(f.ctx, bad[0], bad[1])
			require.ErrorIs(t, err, stream.ErrBadCall)
		}
		for _, window := range []time.Duration{0, stream.MinWindow - 1, stream.MaxWindow + 1} {
			_, err := stream.NewSeen(f.client, stream.SeenConfig{Scope: "s", Name: "n", Window: window})
			require.ErrorIs(t, err, stream.ErrBadCall)
		}
		for _, cfg := range []stream.SeenConfig{{Name: "n", Window: time.Minute}, {Scope: "s", Window: time.Minute}} {
			_, err := stream.NewSeen(f.client, cfg)
			require.ErrorIs(t, err, tier.ErrName)
		}
	})
}

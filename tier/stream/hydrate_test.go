package stream_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestHydrate: in any order, and again, the newest value of each key stays; addresses are two numbers, not text.
func TestHydrate(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		scope := f.addr().Scope
		var all []stream.Latest
		want := map[string]string{}
		for i := range 1500 { // in the order of their addresses
			l := stream.Latest{Key: "k" + strconv.Itoa(i%600), At: codec.EntryID{Ms: 1, Seq: uint64(i)}, Value: []byte(strconv.Itoa(i))}
			if i >= 900 {
				l.At = codec.EntryID{Ms: 1<<62 + 1, Seq: 1<<63 + uint64(i)}
			}
			all, want[l.Key] = append(all, l), string(l.Value)
		}
		for range 3 {
			rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			_, err := stream.Hydrate(f.ctx, f.client, scope, "latest", all)
			require.NoError(t, err)
			m := f.do("HGETALL", tier.StateKey(scope, "latest"))
			got, err := m.AsStrMap()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		n, err := stream.Hydrate(f.ctx, f.client, scope, "latest", all)
		require.NoError(t, err)
		require.Zero(t, n)
		f.do("SET", tier.StateKey(scope, "other.at"), "x")
		_, err = stream.Hydrate(f.ctx, f.client, scope, "other", all[:1])
		require.ErrorIs(t, err, stream.ErrNoHash)
		m := f.do("EXISTS", tier.StateKey(scope, "other"))
		exists, err := m.AsInt64()
		require.NoError(t, err)
		require.Zero(t, exists)
		_, err = stream.Hydrate(f.ctx, f.client, scope, "a:b", nil)
		require.ErrorIs(t, err, tier.ErrName)
	})
}

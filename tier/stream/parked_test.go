package stream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestParkedIsTold: a member is told the positions and keys of what is parked, by whomever, more of it than a page holds, and
// when it is due; of a pack what is open, and nothing of what was trimmed or taken up.
func TestParkedIsTold(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), lease)
		m, other := f.join(g), f.join(g)
		parked, err := m.Parked(f.ctx, nil)
		require.NoError(t, err)
		require.Empty(t, parked)

		want := map[string]string{}
		const plain = 300
		var keys []string
		for i := range plain {
			keys = append(keys, fmt.Sprint("k", i))
		}
		f.keyed(f.writer(stream.WriterConfig{}), keys...)
		f.keyed(f.writer(stream.WriterConfig{Pack: 4}), "a", "b", "c", "d")
		var asides []tier.Ending
		for i, l := range f.read(other, plain) {
			asides = append(asides, tier.Ending{Entry: l.Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}})
			want[l.Records[0].Position.String()] = keys[i]
		}
		pack := f.read(other, 1)[0]
		asides = append(asides, tier.Ending{Entry: pack.Entry, Deliveries: 1, Open: []tier.Open{{Index: 1, Attempt: 1, Delay: time.Hour}, {Index: 3, Attempt: 0}}})
		want[pack.Entry.String()+"#1"], want[pack.Entry.String()+"#3"] = "b", "d"
		require.NoError(t, other.Commit(f.ctx, asides))
		f.do("XDEL", f.log(), asides[7].Entry.String())
		delete(want, asides[7].Entry.String())

		parked, err = m.Parked(f.ctx, nil)
		require.NoError(t, err)
		got := map[string]string{}
		for _, p := range parked {
			got[p.Position.String()] = p.Key
			if p.Position.Entry == pack.Entry {
				require.LessOrEqual(t, p.Delay, time.Duration(0), "an entry comes when the first of its messages is due")
			} else {
				require.InDelta(t, time.Hour, p.Delay, float64(time.Minute))
			}
		}
		require.Equal(t, want, got)

		f.due(m)
		parked, err = m.Parked(f.ctx, nil)
		require.NoError(t, err)
		require.Len(t, parked, plain-1)
	})
}

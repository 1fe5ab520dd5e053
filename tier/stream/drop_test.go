package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDrop (B60): above the hard cap the oldest go, and those from whom they were taken are named, with how many; what they were
// through with is not counted.
func TestDrop(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.logged(10)
		m, leased := f.reads("mailer", 6, 0, 1, 4) // holds 2, 3, 5; was not given 6 to 9
		require.NoError(t, m.Commit(f.ctx, failed(leased[3].Entry)))
		f.reads("fast", 10, upTo(10)...)
		f.do("XGROUP", "CREATE", f.log(), "its:own", ids[6].String())
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		f.owned(o, 10)
		require.NoError(t, o.Commit(f.ctx, failed(ids[0])))
		_, err := o.Settle(f.ctx, []codec.EntryID{ids[1], ids[4]}) // 0 is parked, 4 is through above the checkpoint
		require.NoError(t, err)
		f.do("HSET", f.addr().RetentionKey(), tier.MarkField, ids[6].String())

		policy := stream.Retention{HardCap: 2}
		sweep := f.sweeps(policy)
		got, err := sweep.Trim(f.ctx, "orders", policy, stream.Trim{Keep: -1, Exact: true})
		require.NoError(t, err)
		require.EqualValues(t, 10, got.Left)
		got, err = sweep.Drop(f.ctx, "orders", policy)
		require.NoError(t, err)
		want := map[string]int64{"mailer": 5, "its:own": 1, "c": 6, "": 1}
		require.Equal(t, stream.Trimmed{Entries: 8, Left: 2, Dropped: want}, got)
		require.Equal(t, ids[8:], f.entries())
		h, err := stream.HoldingsOf(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.EqualValues(t, 8, h.Trimmed)
		require.Equal(t, want, h.Dropped)
		got, err = sweep.Drop(f.ctx, "orders", policy)
		require.NoError(t, err)
		require.Equal(t, stream.Trimmed{Left: 2}, got)

		f.append(f.writer(stream.WriterConfig{}), 600)
		for calls, left := 1, int64(602); left > 2; calls++ {
			got, err = sweep.Drop(f.ctx, "orders", policy)
			require.NoError(t, err)
			require.LessOrEqual(t, got.Entries, int64(250))
			require.Equal(t, left-got.Entries, got.Left)
			require.Equal(t, got.Left > 2, got.More)
			left = got.Left
			require.LessOrEqual(t, calls, 3)
		}
		h, err = stream.HoldingsOf(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.EqualValues(t, 608, h.Trimmed)
		require.EqualValues(t, 605, h.Dropped["mailer"])
		f.do("HDEL", f.addr().RetentionKey(), tier.MarkField)
	})
}

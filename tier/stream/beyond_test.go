package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestBeyond: behind what an archive has the log is read though its beginning is gone, unless more is archived by now, or entries
// went that no archive has.
func TestBeyond(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.logged(10)
		key := f.addr().RetentionKey()
		f.do("XTRIM", f.log(), "MINID", ids[7].String())
		read := func(archived int) (got []codec.EntryID, err error) {
			for r, err := range f.reader().Beyond(f.ctx, ids[archived], ids[archived].Next(), codec.MaxEntryID, false) {
				if err != nil {
					return got, err
				}
				got = append(got, r.Addr)
			}
			return got, nil
		}
		f.do("HSET", key, tier.MarkField, ids[6].String())
		got, err := read(6)
		require.NoError(t, err)
		require.Equal(t, ids[7:], got)
		got, err = read(5)
		require.ErrorIs(t, err, stream.ErrArchiveAhead)
		require.Empty(t, got)
		f.do("HSET", key, tier.MarkField, ids[5].String(), tier.LostField, ids[7].String())
		got, err = read(5)
		var gap *stream.GapError
		require.ErrorAs(t, err, &gap)
		require.Empty(t, got)
		require.Equal(t, stream.GapError{Stream: f.addr().String(), From: ids[6], First: ids[7]}, *gap)
		f.do("HSET", key, tier.LostField, ids[6].String()) // below which the archive has all
		got, err = read(5)
		require.NoError(t, err)
		require.Equal(t, ids[7:], got)
	})
}

// TestLost: what goes without being in an archive is noted, by a hard cap and where there is no archive; what it has is not.
func TestLost(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.logged(10)
		lost := func() codec.EntryID {
			t.Helper()
			is, err := f.reader().Border(f.ctx)
			require.NoError(t, err)
			return is.Lost
		}
		sweep := f.sweeps(stream.Retention{MaxLength: 8, Exact: true})
		trim := func(policy stream.Retention, keep int64) {
			t.Helper()
			require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, policy))
			_, err := sweep.Trim(f.ctx, "orders", policy, stream.Trim{Keep: keep, Exact: true})
			require.NoError(t, err)
		}
		policy := stream.Retention{MaxLength: 8, Exact: true}
		require.Zero(t, lost())
		trim(policy, 8)
		require.Equal(t, ids[2], lost())
		f.do("HSET", f.addr().RetentionKey(), tier.MarkField, ids[4].String())
		policy = stream.Retention{MaxLength: 6, HardCap: 6, Exact: true}
		trim(policy, 6)
		require.Equal(t, ids[2], lost(), "2 and 3 are archived")
		policy.MaxLength, policy.HardCap = 3, 3
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, policy))
		_, err := sweep.Drop(f.ctx, "orders", policy)
		require.NoError(t, err)
		require.Equal(t, ids[7], lost(), "5 and 6 are not")
	})
}

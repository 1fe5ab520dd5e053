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

var (
	settled   = stream.Retention{Settled: true, Exact: true}
	allOfThat = stream.Trim{Keep: -1, Settled: true, Exact: true}
)

// sweeps declares a policy, and takes the right to trim by it.
func (f *fixture) sweeps(policy stream.Retention) *stream.Sweep {
	f.t.Helper()
	require.NoError(f.t, stream.SetRetention(f.ctx, f.client, f.address, policy))
	s, err := stream.NewSweep(f.client, f.addr().Scope, time.Minute)
	require.NoError(f.t, err)
	held, _, err := s.Take(f.ctx)
	require.NoError(f.t, err)
	require.True(f.t, held)
	return s
}

// trim takes all away that goes.
func (f *fixture) trim(s *stream.Sweep, policy stream.Retention, trim stream.Trim) (gone int64) {
	f.t.Helper()
	for {
		got, err := s.Trim(f.ctx, "orders", policy, trim)
		require.NoError(f.t, err)
		gone += got.Entries
		if !got.More {
			return gone
		}
	}
}

// logged appends n entries, and answers their ids.
func (f *fixture) logged(n int) []codec.EntryID {
	f.t.Helper()
	var ids []codec.EntryID
	for _, id := range f.append(f.writer(stream.WriterConfig{}), n) {
		ids = append(ids, id.ServerEntry())
	}
	return ids
}

// reads joins a group at the head, reads n entries and settles those at some places.
func (f *fixture) reads(name string, n int, places ...int) (*stream.Member, []tier.Leased) {
	f.t.Helper()
	m := f.join(f.group(name, stream.Head(), time.Minute))
	leased := f.read(m, n)
	var done []codec.EntryID
	for _, i := range places {
		done = append(done, leased[i].Entry)
	}
	_, err := m.Settle(f.ctx, done)
	require.NoError(f.t, err)
	return m, leased
}

func upTo(n int) (places []int) {
	for i := range n {
		places = append(places, i)
	}
	return places
}

// TestTrimLargeRetrySet: of a group that has parked more than fits one look, the lowest is found a piece at a time, and none is
// lost.
func TestTrimLargeRetrySet(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	ids := f.logged(2500)
	f.reads("flaky", 2500, upTo(2500)...)
	retry := f.addr().RetryKey("flaky")
	defer f.do("DEL", retry)
	args := []string{retry}
	for i := range 10001 { // of entries that are to come, as far as the script can see
		args = append(args, "9007199254740000", codec.EntryID{Ms: ids[2499].Ms + uint64(i) + 1}.String())
	}
	f.do("ZADD", append(args, "1", ids[2200].String())...)
	sweep := f.sweeps(settled)
	var gone []int64
	for {
		got, err := sweep.Trim(f.ctx, "orders", settled, allOfThat)
		require.NoError(t, err)
		if got.Entries == 0 {
			break
		}
		gone = append(gone, got.Entries)
	}
	require.Equal(t, []int64{999, 999, 202}, gone)
	require.Equal(t, ids[2200], f.entries()[0])
}

// TestTrimBounds: of what nobody holds goes what the policy says: to the entry when exact, to a node of the server's when not.
func TestTrimBounds(t *testing.T) {
	tests := []struct {
		name       string
		trim       stream.Trim
		least, all int64 // that stay, of 350
	}{
		{"nothing", stream.Trim{Keep: -1, Exact: true}, 350, 350},
		{"more than there are", stream.Trim{Keep: 351, Exact: true}, 350, 350},
		{"length", stream.Trim{Keep: 120, Exact: true}, 120, 120},
		{"length, about", stream.Trim{Keep: 120}, 120, 220},
		{"none", stream.Trim{Keep: 0, Exact: true}, 0, 0},
		{"young", stream.Trim{Keep: -1, Age: time.Hour, Exact: true}, 350, 350},
		{"settled by nobody", stream.Trim{Keep: -1, Settled: true, Exact: true}, 350, 350},
		{"young or too many", stream.Trim{Keep: 349, Age: time.Hour, Exact: true}, 349, 349},
	}
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				f := setUp(t, s)
				ids := f.logged(350)
				f.trim(f.sweeps(settled), settled, tt.trim)
				left := int64(len(f.entries()))
				require.GreaterOrEqual(t, left, tt.least)
				require.LessOrEqual(t, left, tt.all)
				require.Equal(t, ids[350-left:], append([]codec.EntryID{}, f.entries()...))
			})
		}
	})
}

// TestTrimAge: what is older than the policy says goes, by the server's clock, and what is held of it stays.
func TestTrimAge(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.writer(stream.WriterConfig{}).Declare(f.ctx)
		require.NoError(t, err)
		now := f.now()
		var ids []codec.EntryID
		for _, minutes := range []time.Duration{50, 40, 30, 20, 10} {
			ids = append(ids, codec.FloorEntry(now.Add(-minutes*time.Minute)).Next())
			f.do("XADD", f.log(), ids[len(ids)-1].String(), "m", encoded(t, "k"))
		}
		sweep := f.sweeps(settled)
		older := stream.Trim{Keep: -1, Age: 35 * time.Minute, Exact: true}
		f.do("XGROUP", "CREATE", f.log(), "g", ids[0].String())
		require.EqualValues(t, 1, f.trim(sweep, settled, older))
		f.do("XGROUP", "SETID", f.log(), "g", ids[4].String())
		require.EqualValues(t, 1, f.trim(sweep, settled, older))
		require.Equal(t, ids[2:], f.entries())
	})
}

// TestTrimSlices: a call takes 10,000 entries at most, and the next one goes on.
func TestTrimSlices(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	for range 6 {
		f.append(w, 4096)
	}
	sweep := f.sweeps(settled)
	var gone, calls int64
	for more := true; more; calls++ {
		got, err := sweep.Trim(f.ctx, "orders", settled, stream.Trim{Keep: 101, Exact: true})
		require.NoError(t, err)
		require.LessOrEqual(t, got.Entries, int64(10_128))
		require.Equal(t, got.Left, 6*4096-gone-got.Entries)
		gone, more = gone+got.Entries, got.More
	}
	require.EqualValues(t, 6*4096-101, gone)
	require.EqualValues(t, 3, calls)
}

// TestTrimMeetsAGroupMadeInBetween: a group or a cursor that comes after its caller has listed them is found, and loses nothing.
func TestTrimMeetsAGroupMadeInBetween(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, what := range []string{"group", "cursor"} {
			t.Run(string(kind)+" "+what, func(t *testing.T) {
				t.Parallel()
				s := tiertest.Shared(t, kind)
				f, proxy := setUpProxied(t, s)
				beside := *f
				beside.client = tiertest.Dial(t, s)
				ids := f.logged(10)
				f.reads("fast", 10, upTo(10)...)
				sweep := f.sweeps(settled)
				script := sources(t)["trim"]
				f.load(script)
				made := 0
				proxy.DropReplies(1000, func(cmd []string) bool {
					if runs(script)(cmd) {
						if made++; made == 1 && what == "group" {
							require.NoError(t, beside.group("late", stream.FromEntry(ids[3]), 0).Create(f.ctx))
						} else if made == 1 {
							beside.own(beside.cursor("late", stream.FromEntry(ids[3]), time.Minute))
						}
					}
					return false
				})
				require.EqualValues(t, 3, f.trim(sweep, settled, allOfThat))
				require.Equal(t, 2, made, "refused once, and then by its side")
				require.Equal(t, ids[3:], f.entries())
			})
		}
	}
}

// TestTrimKeyed: the versions of a keyed stream go on where they were; who reads from before is told what is gone.
func TestTrimKeyed(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.keyedWriter()
		_, err := w.AppendBatch(f.ctx, keyedMessages("a", "b", "a", "a"))
		require.NoError(t, err)
		f.trim(f.sweeps(settled), settled, stream.Trim{Keep: 1, Exact: true})
		_, err = w.AppendIf(f.ctx, keyedMessages("a", "b"), stream.ExpectVersion("a", 3), stream.ExpectVersion("b", 1))
		require.NoError(t, err)
		require.Len(t, f.index("a"), 4)
		versions, err := f.byKey("a", 3)
		require.NoError(t, err)
		require.Len(t, versions, 2)
		_, err = f.byKey("a", 1)
		require.ErrorIs(t, err, stream.ErrTrimmed)
	})
}

// TestTrimFollowsThePolicyItRead: by a policy that is not in force any more nothing goes, nor of a stream that was removed.
func TestTrimFollowsThePolicyItRead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.logged(3)
		sweep := f.sweeps(settled)
		refused := func(name string) {
			t.Helper()
			_, err := sweep.Trim(f.ctx, name, settled, stream.Trim{Keep: 0, Exact: true})
			require.ErrorIs(t, err, stream.ErrPolicyChanged)
			capped := settled
			capped.HardCap = 1
			_, err = sweep.Drop(f.ctx, name, capped)
			require.ErrorIs(t, err, stream.ErrPolicyChanged)
		}
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, stream.Retention{MaxLength: 2}))
		refused("orders")
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, stream.Retention{}))
		refused("orders")
		refused("none")
		require.Equal(t, "3", f.length())
		_, err := sweep.Drop(f.ctx, "orders", settled)
		require.ErrorIs(t, err, stream.ErrBadCall)
		_, err = sweep.Trim(f.ctx, "or:ders", settled, allOfThat)
		require.Error(t, err)
	})
}

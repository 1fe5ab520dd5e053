package codec_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

const (
	t0  = int64(1780000000000) // some granted millisecond
	far = t0 + 1<<30
)

// clock is a time that a test moves.
type clock struct{ ms atomic.Int64 }

func newClock(ms int64) *clock {
	c := new(clock)
	c.ms.Store(ms)
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func newMint(t require.TestingT, node int, from, limit int64, c *clock) *codec.Mint {
	m, err := codec.NewMint(node, from, limit, c.now)
	require.NoError(t, err)
	return m
}

func TestMintUniqueAndAscendingPerCaller(t *testing.T) {
	const callers, each = 10, 50000
	m := newMint(t, 513, 0, far, newClock(t0)) // frozen, so that all want the same id
	ids := make([][]codec.ID, callers)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for c := range ids {
		wg.Go(func() {
			<-start
			for range each {
				id, err := m.Next("JOB")
				if err != nil {
					return // seen below as a short list
				}
				ids[c] = append(ids[c], id)
			}
		})
	}
	close(start)
	wg.Wait()
	seen := make(map[codec.ID]bool, callers*each)
	for _, list := range ids {
		require.Len(t, list, each)
		for i, id := range list {
			require.False(t, seen[id], "given twice: %s", id)
			seen[id] = true
			require.True(t, i == 0 || list[i-1].Compare(id) < 0)
		}
	}
}

// B90: a clock that steps back must not repeat an id.
func TestMintClockStepsBack(t *testing.T) {
	c := newClock(t0)
	m := newMint(t, 512, t0-1, far, c)
	before, err := m.Next("JOB")
	require.NoError(t, err)
	require.Equal(t, t0, before.UnixMs())
	c.ms.Add(-5000)
	for range 10000 {
		after, err := m.Next("JOB")
		require.NoError(t, err)
		require.Positive(t, after.Compare(before))
		before = after
	}
	require.Equal(t, t0+10000/4096, before.UnixMs(), "runs ahead by what was minted, not more")
	c.ms.Store(t0 + 60000)
	after, err := m.Next("JOB")
	require.NoError(t, err)
	require.Equal(t, t0+60000, after.UnixMs(), "follows the clock again")
	require.Zero(t, after.Seq())
}

// B90: a million ids in one frozen millisecond run ahead, up to the limit.
func TestMintFrozenClock(t *testing.T) {
	const million = 1_000_000
	c := newClock(t0)
	m := newMint(t, 512, t0, t0+million/4096, c) // 244 whole milliseconds: 999,424 ids
	var last codec.ID
	given := 0
	for range million {
		id, err := m.Next("JOB")
		if err != nil {
			require.ErrorIs(t, err, codec.ErrNodeLease)
			break
		}
		if id.Compare(last) <= 0 {
			require.Fail(t, "not ascending", "%s after %s", id, last)
		}
		last = id
		given++
	}
	require.Equal(t, million/4096*4096, given)
	require.Equal(t, t0+million/4096-1, last.UnixMs())
	require.Equal(t, codec.MaxSeq, last.Seq())

	m.SetLimit(t0 + million/4096 + 1)
	next, err := m.Next("JOB")
	require.NoError(t, err)
	require.Equal(t, t0+million/4096, next.UnixMs(), "a refused call spent nothing")
	require.Zero(t, next.Seq())
}

func TestMintRange(t *testing.T) {
	tests := []struct {
		name             string
		now, from, limit int64
		want             int64 // 0: ErrNodeLease
	}{
		{"clock inside", t0, t0 - 10, far, t0},
		{"clock at the start", t0, t0, far, t0},
		{"clock before the start", t0 - 10, t0, far, t0},
		{"clock on the last millisecond", t0, t0 - 10, t0 + 1, t0},
		{"clock at the limit", t0, t0 - 10, t0, 0},
		{"clock past the limit", far + 1, t0, far, 0},
		{"empty range", t0, t0, t0, 0},
		{"no limit yet", t0, t0, 0, 0},
		{"from before epoch", 5, 0, far, codec.Epoch},
		{"past 41 bits", 1 << 62, t0, 1 << 62, 0},
		{"from past 41 bits", t0, 1 << 62, 1<<62 + 1, 0},
		{"clock at the end of time", -1 << 62, t0, far, t0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMint(t, 1, tt.from, tt.limit, newClock(tt.now))
			id, err := m.Next("JOB")
			if tt.want == 0 {
				require.ErrorIs(t, err, codec.ErrNodeLease)
				require.ErrorContains(t, err, "extend the lease")
				require.True(t, id.IsZero())
				return
			}
			require.NoError(t, err)
			want, err := codec.NewIDAt("JOB", tt.want, 1, 0)
			require.NoError(t, err)
			require.Equal(t, want, id)
		})
	}
}

func TestMintRecoversFromAJump(t *testing.T) {
	c := newClock(far + 1)
	m := newMint(t, 1, t0, far, c)
	_, err := m.Next("JOB")
	require.ErrorIs(t, err, codec.ErrNodeLease)
	c.ms.Store(t0 + 7)
	id, err := m.Next("JOB")
	require.NoError(t, err)
	require.Equal(t, t0+7, id.UnixMs(), "a clock that was wrong for a moment leaves no trace")
}

func TestMintLimitOnlyRises(t *testing.T) {
	m := newMint(t, 1, t0, t0+10, newClock(t0))
	m.SetLimit(t0 + 5)
	require.Equal(t, t0+10, m.Limit())
	var wg sync.WaitGroup
	for i := range int64(100) {
		wg.Go(func() { m.SetLimit(t0 + i) })
	}
	wg.Wait()
	require.Equal(t, t0+99, m.Limit())
}

func TestMintRefuses(t *testing.T) {
	for _, node := range []int{-1, codec.MaxNode + 1} {
		_, err := codec.NewMint(node, t0, far, nil)
		require.Error(t, err)
	}
	m := newMint(t, 1, t0, far, newClock(t0))
	_, err := m.Next("job")
	require.ErrorIs(t, err, codec.ErrID)
	id, err := m.Next("JOB")
	require.NoError(t, err)
	require.Zero(t, id.Seq(), "a refused call spent nothing")
}

func TestMintStop(t *testing.T) {
	tests := []struct {
		name        string
		now         int64
		ids         int
		limit, want int64
	}{
		{"nothing given", t0 + 5, 0, far, t0},
		{"one given", t0 + 5, 1, far, t0 + 6},
		{"a whole millisecond given", t0 + 5, 4096, far, t0 + 6},
		{"one more", t0 + 5, 4097, far, t0 + 7},
		{"empty range", t0, 0, t0 - 5, t0 - 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMint(t, 1, t0, tt.limit, newClock(tt.now))
			for range tt.ids {
				_, err := m.Next("JOB")
				require.NoError(t, err)
			}
			require.Equal(t, tt.want, m.Stop())
			m.SetLimit(far + 1)
			_, err := m.Next("JOB")
			require.ErrorIs(t, err, codec.ErrNodeLease)
			require.Equal(t, far+1, m.Stop())
		})
	}
}

// Two holders of one node number, one after the other, never give the same id,
// whatever is under way when the first stops.
func TestMintHandedOn(t *testing.T) {
	c := newClock(t0)
	first := newMint(t, 512, t0, far, c)
	var wg sync.WaitGroup
	highest := make([]codec.ID, 4)
	for i := range highest {
		wg.Go(func() {
			for {
				id, err := first.Next("JOB")
				if err != nil {
					return
				}
				highest[i] = id
			}
		})
	}
	var from int64
	wg.Go(func() {
		for highestOf := t0; highestOf == t0; { // let some be given
			id, err := first.Next("JOB")
			if err != nil {
				return
			}
			highestOf = id.UnixMs()
		}
		from = first.Stop()
	})
	wg.Wait()
	id, err := newMint(t, 512, from, far, c).Next("JOB")
	require.NoError(t, err)
	for _, h := range highest {
		require.Positive(t, id.Compare(h))
	}
}

// A model: whatever the clock and the limit do, ids ascend, carry the node, lie
// in the range, and are not needlessly ahead.
func TestMintModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.IntRange(0, codec.MaxNode).Draw(t, "node")
		c := newClock(t0)
		limit := t0 + rapid.Int64Range(0, 5).Draw(t, "limit")
		m := newMint(t, node, t0, limit, c)
		var last codec.ID
		t.Repeat(map[string]func(*rapid.T){
			"clock": func(t *rapid.T) { c.ms.Add(rapid.Int64Range(-5000, 5000).Draw(t, "step")) },
			"limit": func(t *rapid.T) {
				to := limit + rapid.Int64Range(-10, 10).Draw(t, "raise")
				m.SetLimit(to)
				limit = max(limit, to)
			},
			"mint": func(t *rapid.T) {
				for range rapid.IntRange(1, 5000).Draw(t, "n") {
					id, err := m.Next("JOB")
					if err != nil {
						require.ErrorIs(t, err, codec.ErrNodeLease)
						ahead := !last.IsZero() && last.UnixMs() >= limit-1 && last.Seq() == codec.MaxSeq
						require.True(t, ahead || c.ms.Load() >= limit || t0 >= limit, "refused without need")
						return
					}
					fresh := id.Seq() == 0 && id.UnixMs() == max(t0, c.ms.Load())
					follows := id.Snowflake()-last.Snowflake() == 1 || id.UnixMs() == last.UnixMs()+1 && id.Seq() == 0
					if id.Compare(last) <= 0 || id.Node() != node || id.UnixMs() < t0 || id.UnixMs() >= limit || !fresh && !follows {
						require.Fail(t, "bad id", "%s after %s", id, last)
					}
					last = id
				}
			},
		})
	})
}

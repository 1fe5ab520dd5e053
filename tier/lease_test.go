package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

func (f *fixture) lease() *tier.NodeLease {
	f.t.Helper()
	l, err := f.client.LeaseNode(f.ctx)
	require.NoError(f.t, err)
	return l
}

// row is what the registry holds of a number.
func (f *fixture) row(number int) (holder string, limit int64) {
	f.t.Helper()
	holder, text, ok := strings.Cut(f.text("HGET", tier.NodesKey, "node:"+strconv.Itoa(number)), " ")
	if !ok {
		return "", 0
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	require.NoError(f.t, err)
	return holder, limit
}

func (f *fixture) now() int64 {
	f.t.Helper()
	now, err := f.client.Now(f.ctx, tier.NodesKey)
	require.NoError(f.t, err)
	return now.UnixMilli()
}

// TestLeaseNode: processes get numbers of their own, 512 to 1023, and mint below the limit that the registry holds; what
// was released is given again, from where it was left.
func TestLeaseNode(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis, tiertest.ValkeyCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			numbers := map[int]*tier.NodeLease{}
			for range 50 {
				before := f.now()
				l := f.lease()
				require.NotContains(t, numbers, l.Number())
				numbers[l.Number()] = l
				require.True(t, l.Number() >= 512 && l.Number() <= 1023)
				scope, err := f.client.ScopeOfNode(f.ctx, l.Number())
				require.NoError(t, err)
				require.Empty(t, scope)
				_, limit := f.row(l.Number())
				require.InDelta(t, before+600_000, limit, 5000)
				require.Equal(t, limit, l.Mint().Limit())
				id, err := l.Mint().Next("JOB")
				require.NoError(t, err)
				require.Equal(t, l.Number(), id.Node())
				require.GreaterOrEqual(t, id.UnixMs(), before)
				require.Less(t, id.UnixMs(), limit)
			}
			for number, l := range numbers {
				holder, limit := f.row(number)
				require.NoError(t, l.Extend(f.ctx))
				again, later := f.row(number)
				require.Equal(t, holder, again)
				require.GreaterOrEqual(t, later, limit)
				require.Equal(t, later, l.Mint().Limit())

				last, err := l.Mint().Next("JOB")
				require.NoError(t, err)
				require.NoError(t, l.Release(f.ctx))
				_, err = l.Mint().Next("JOB")
				require.ErrorIs(t, err, codec.ErrNodeLease)
				_, limit = f.row(number)
				require.Greater(t, limit, last.UnixMs())
				require.LessOrEqual(t, limit, last.UnixMs()+1)
				require.NoError(t, l.Release(f.ctx))
				_, again2 := f.row(number)
				require.Equal(t, limit, again2)
			}
		})
	}
}

// TestNodeRangesNeverOverlap: whatever holders do, and however long they sleep, no two ever had the same time of the same
// number. It drives the scripts with grants of milliseconds, so that leases end all the time.
func TestNodeRangesNeverOverlap(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	lease, release := script(t, "lease_node"), script(t, "release_node")
	type span struct {
		holder      string
		from, limit int64
	}
	var mu sync.Mutex
	given := map[int64][]span{}
	type holder struct {
		token  string
		number int64
		limit  int64
	}
	call := func(h *holder, grant int) (string, [4]int64) {
		m, err := f.client.Run(f.ctx, tier.Call{Script: lease, Keys: []string{tier.NodesKey}, Args: []string{
			h.token, strconv.FormatInt(h.number, 10), strconv.Itoa(grant), "512", "0",
		}})
		require.NoError(t, err)
		reply, err := m.ToArray()
		require.NoError(t, err)
		code, err := reply[0].ToString()
		require.NoError(t, err)
		var n [4]int64
		for i := range n {
			n[i], err = reply[i+1].AsInt64()
			require.NoError(t, err)
		}
		return code, n
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			h := &holder{number: -1}
			for step := range 300 {
				switch what := rnd.IntN(10); {
				case h.number < 0 || what == 0:
					h.token, h.number = fmt.Sprintf("%d.%d", g, step), -1
					code, n := call(h, rnd.IntN(10))
					if code != "ok" {
						t.Errorf("lease: %s", code)
						return
					}
					h.number, h.limit = n[0], n[2]
					mu.Lock()
					given[h.number] = append(given[h.number], span{h.token, n[1], n[2]})
					mu.Unlock()
				case what < 6:
					code, n := call(h, rnd.IntN(10))
					if code == "lost" {
						h.number = -1
						continue
					}
					h.limit = n[2]
					mu.Lock()
					for i := range given[h.number] {
						if s := &given[h.number][i]; s.holder == h.token {
							s.limit = max(s.limit, n[2])
						}
					}
					mu.Unlock()
				case what == 9:
					stop := min(time.Now().UnixMilli()+1, h.limit)
					if _, err := f.client.Run(f.ctx, tier.Call{Script: release, Keys: []string{tier.NodesKey}, Args: []string{
						h.token, strconv.FormatInt(h.number, 10), strconv.FormatInt(stop, 10),
					}}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for i := range given[h.number] {
						if s := &given[h.number][i]; s.holder == h.token {
							s.limit = max(s.from, stop)
						}
					}
					mu.Unlock()
					h.number = -1
				}
			}
		})
	}
	wg.Wait()
	shared := 0
	for number, spans := range given {
		for i := range spans {
			for k := range spans[:i] {
				a, b := spans[i], spans[k]
				require.True(t, a.from >= b.limit || b.from >= a.limit, "number %d: %v and %v", number, a, b)
				shared++
			}
		}
	}
	require.Greater(t, shared, 100, "numbers were not given again")
}

func script(t testing.TB, name string) *tier.Script {
	t.Helper()
	text, err := os.ReadFile("lua/" + name + ".lua")
	require.NoError(t, err)
	return tier.NewScript(name, string(text))
}

// TestNodesRunOut: the 513th process is refused, and says what to do; when one range has ended, there is room.
func TestNodesRunOut(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	leases := make([]*tier.NodeLease, 512)
	for i := range leases {
		leases[i] = f.lease()
	}
	before := f.text("DUMP", tier.NodesKey)
	_, err := f.client.LeaseNode(f.ctx)
	require.ErrorIs(t, err, tier.ErrNodesExhausted)
	require.Equal(t, before, f.text("DUMP", tier.NodesKey))
	require.NoError(t, leases[77].Release(f.ctx))
	tiertest.Eventually(t, soon, func() (bool, string) {
		l, err := f.client.LeaseNode(f.ctx)
		return err == nil && l.Number() == leases[77].Number(), fmt.Sprint(err)
	})
	require.NoError(t, leases[3].Extend(f.ctx))
}

// TestNodeLost: a lease that the registry forgot, or gave to another, is not extended; its mint keeps to its limit.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	for _, row := range []string{"", "another 99999999999999"} {
		l := f.lease()
		limit := l.Mint().Limit()
		field := "node:" + strconv.Itoa(l.Number())
		if row == "" {
			f.text("HDEL", tier.NodesKey, field)
		} else {
			f.text("HSET", tier.NodesKey, field, row)
		}
		require.ErrorIs(t, l.Extend(f.ctx), tier.ErrNodeLost)
		require.Equal(t, limit, l.Mint().Limit())
		require.NoError(t, l.Release(f.ctx))
		require.Equal(t, row, f.text("HGET", tier.NodesKey, field)) // not its own any more
	}
}

// TestClockAhead (B124): a host whose clock is more than a minute ahead gets no number, however often it asks, and none is
// lost to it; one that is behind, or a little ahead, gets one and mints in the granted range.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	for _, ahead := range []time.Duration{-24 * time.Hour, -time.Second, 0, 50 * time.Second, 70 * time.Second, 24 * time.Hour} {
		host := func() time.Time { return time.Now().Add(ahead) }
		before := f.text("HLEN", tier.NodesKey)
		l, err := f.client.LeaseNodeAt(f.ctx, host)
		if ahead > time.Minute {
			require.ErrorIs(t, err, tier.ErrClockAhead, ahead)
			require.Equal(t, before, f.text("HLEN", tier.NodesKey))
			continue
		}
		require.NoError(t, err, ahead)
		id, err := l.Mint().Next("JOB")
		require.NoError(t, err)
		require.GreaterOrEqual(t, id.UnixMs(), f.now()-60_000)
		require.Less(t, id.UnixMs(), l.Mint().Limit())
	}
	var skew time.Duration
	l, err := f.client.LeaseNodeAt(f.ctx, func() time.Time { return time.Now().Add(skew) })
	require.NoError(t, err)
	limit := l.Mint().Limit()
	skew = time.Hour
	require.ErrorIs(t, l.Extend(f.ctx), tier.ErrClockAhead)
	require.Equal(t, limit, l.Mint().Limit())
	_, err = l.Mint().Next("JOB")
	require.ErrorIs(t, err, codec.ErrNodeLease)
}

// TestLeaseRun ends with its context.
func TestLeaseRun(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	l := f.lease()
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	cancel()
	require.NoError(t, <-ended)
}

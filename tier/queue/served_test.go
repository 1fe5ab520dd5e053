package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestServedLanes: who serves some lanes gets and takes over their jobs only, by turns and weights, whatever stands before them in the
// ring, and leaves the bell to others.
func TestServedLanes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		serving := func(lanes ...string) *queue.Workers {
			w, err := queue.NewWorkers(f.client, queue.WorkersConfig{Queue: string(f.queue), Lease: lease, Lanes: lanes})
			require.NoError(t, err)
			return w
		}
		var before []string // more lanes than one claim looks at
		for i := range 2 * queue.MaxServedLanes {
			before = append(before, fmt.Sprint("before", i))
		}
		f.enqueue(before...)
		_, err := f.jobs.SetLane(f.ctx, "a", 3, 0)
		require.NoError(t, err)
		f.enqueue("a", "a", "a", "a", "a", "a", "b", "b", "b", "b", "b", "b")
		some, all := f.join(serving("a", "b", "none")), f.join(f.workers)
		lanesOf := func(leased []tier.Leased) (n map[string]int) {
			n = map[string]int{}
			for _, l := range leased {
				n[f.get(idOf(l)).Lane]++
			}
			return n
		}
		require.Equal(t, map[string]int{"a": 3, "b": 1}, lanesOf(f.read(some, 4)))
		f.read(f.join(serving("b")), 5)
		f.none(f.join(serving("b", "none")))
		f.none(f.join(serving("none")))
		for left := len(before) + 3; left > 0; {
			leased, err := all.Read(f.ctx, left, 0)
			require.NoError(t, err)
			require.NotEmpty(t, leased)
			left -= len(leased)
		}
		f.none(all)

		for _, lane := range append(before, "a", "b") {
			f.age(lane)
		}
		heir := f.join(serving("b"))
		f.none(heir)
		leased, last := f.takeOver(heir, 100, 0)
		require.Equal(t, map[string]int{"b": 6}, lanesOf(leased))
		require.True(t, last.Done)

		f.enqueue("rings")
		bells := f.text("LLEN", f.queue.WakeKey())
		require.NotEqual(t, "0", bells)
		leased, err = f.join(serving("none")).Read(f.ctx, 1, 10*time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, leased)
		require.Equal(t, bells, f.text("LLEN", f.queue.WakeKey()))
	})
}

// TestServedLanesRefused: lanes that cannot be served are refused before anything is sent.
func TestServedLanesRefused(t *testing.T) {
	for _, lanes := range [][]string{{"a", "a"}, {"no lane"}, {""}, make([]string, queue.MaxServedLanes+1)} {
		_, err := queue.NewWorkers(nil, queue.WorkersConfig{Queue: "q", Lanes: lanes})
		require.Error(t, err, lanes)
	}
}

package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// eventScenarios are those of the conformance list of which events are the witnesses.
var eventScenarios = []struct {
	name string
	run  func(w *witness, m *queue.Member)
}{
	{"21 metrics", func(w *witness, m *queue.Member) {
		completed := func() (n int) {
			for _, e := range w.told(w.messages(w.at)) {
				if e.What() == queue.Completed {
					n++
				}
			}
			return n
		}
		w.enqueue("a")
		leased := w.read(m, 1)
		require.Zero(w.t, completed())
		w.settle(m, leased...)
		require.Equal(w.t, 1, completed())
	}},
	{"35 events", func(w *witness, m *queue.Member) {
		id := w.enqueue("a")[0]
		leased := w.read(m, 1)
		w.next()
		w.settle(m, leased...)
		events := w.told(w.messages(w.at))
		require.Len(w.t, events, 1)
		require.Equal(w.t, queue.What("completed"), events[0].What())
		require.Equal(w.t, id, events[0].Job)
	}},
	{"36 telemetry", func(w *witness, m *queue.Member) {
		ids := w.enqueue("a", "a")
		leased := w.read(m, 2)
		began := time.Now()
		require.Eventually(w.t, func() bool { return time.Since(began) > 30*time.Millisecond }, time.Minute, time.Millisecond)
		w.settle(m, leased[0])
		w.commit(m, dead(leased[1], "boom"))
		least := time.Since(began)
		for i, e := range w.told(w.messages(w.at))[4:] {
			require.Equal(w.t, ids[i], e.Job)
			require.Equal(w.t, m.Name(), e.By)
			require.GreaterOrEqual(w.t, e.After, 30*time.Millisecond)
			require.Less(w.t, e.After, least+time.Minute)
		}

		require.NoError(w.t, w.jobs.DeclareEvents(w.ctx, 0)) // without them, all goes on
		w.next()
		w.enqueue("a")
		w.settle(m, w.read(m, 1)...)
		require.Empty(w.t, w.next())
	}},
}

// TestEventConformance: the scenarios, on every server.
func TestEventConformance(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range eventScenarios {
			t.Run(scenario.name, func(t *testing.T) {
				w := newWitness(setUp(t, s))
				scenario.run(w, w.joined("me"))
			})
		}
	})
}

// TestEventsWaited: of a job that is started it is told how long it was ready, by the server's clock, also after it was put off.
func TestEventsWaited(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		w := newWitness(setUp(t, s))
		m := w.joined("me")
		w.enqueue("a")
		now := func() time.Time {
			now, err := w.client.Now(w.ctx, w.queue.QueueKey())
			require.NoError(t, err)
			return now
		}
		since := now()
		tiertest.Eventually(t, time.Minute, func() (bool, string) { return now().Sub(since) > 30*time.Millisecond, "" })
		w.commit(m, again(w.read(m, 1)[0], 0))
		w.settle(m, w.read(m, 1)...)
		var started []time.Duration
		for _, e := range w.told(w.messages(w.at)) {
			if e.What() == queue.Started {
				started = append(started, e.After)
			}
		}
		require.Len(t, started, 2)
		require.GreaterOrEqual(t, started[0], 30*time.Millisecond)
		require.Less(t, started[1], started[0])
	})
}

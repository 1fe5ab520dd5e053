package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
)

const (
	// cancelGrace is how long handlers have to return after their contexts have ended.
	cancelGrace = time.Second
	// flushTime is how long the last settles and hand-backs may take, if the server is slow or away.
	flushTime = 5 * time.Second
)

// untilStopped starts the loops, waits for the end of ctx or for a failure, and stops in the order in which nothing is
// lost: no more fetches; what was not begun is handed back, at once; handlers finish; what they did is settled, while
// leases are renewed all along; then the member leaves.
func (r *run) untilStopped(ctx context.Context) error {
	fetched, settled := make(chan struct{}), make(chan struct{})
	work := r.workLoop
	if r.batch != nil {
		work = r.batchLoop
	}
	for range r.cfg.Concurrency {
		r.workers.Go(work)
	}
	r.start(r.fetchLoop, fetched)
	r.start(r.settleLoop, settled)
	r.start(r.beatLoop, nil)
	if c, ok := r.member.(canceller); ok {
		r.loops.Go(func() { r.listenLoop(c) }) // the others can do without it
	}
	r.log.Log.Info("consumer started", slog.Duration("lease", r.lease))

	<-r.fetching.Done()
	since := time.Now()
	r.desk.close()
	stuck := r.drain()
	flush := time.AfterFunc(flushTime, r.endCalls)
	defer flush.Stop()
	<-fetched
	r.stopAdding()
	<-settled
	r.endCalls()
	r.loops.Wait()

	err := errors.Join(r.fatal(), r.abandon())
	if err == nil {
		r.leave()
	}
	if m, ok := r.member.(interface{ Close() }); ok { // it may not have left
		m.Close()
	}
	if len(stuck) > 0 {
		err = errors.Join(err, &StuckError{Messages: stuck, Waited: time.Since(since).Round(time.Millisecond)})
	}
	r.log.Log.Info("consumer stopped", slog.Duration("took", time.Since(since)), slog.Any("err", err))
	return err
}

// start runs a loop. However one ends, the others do not go on without it.
func (r *run) start(loop func(), ended chan struct{}) {
	r.loops.Go(func() {
		if ended != nil {
			defer close(ended)
		}
		defer r.stopFetching()
		loop()
	})
}

// drain waits for the workers, at the deadline ends the contexts of their handlers, and returns the messages of handlers
// that go on even so. Their goroutines cannot be ended from outside, so they are left behind: the one case in which
// something outlives Run.
func (r *run) drain() (stuck []codec.Position) {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		r.workers.Wait()
	}()
	deadline := time.NewTimer(r.cfg.DrainTimeout)
	defer deadline.Stop()
	select {
	case <-idle:
		return nil
	case <-deadline.C:
	}
	r.desk.interrupt()
	deadline.Reset(cancelGrace)
	select {
	case <-idle:
		return nil
	case <-deadline.C:
	}
	r.desk.ask(func(t *tracker) { stuck = t.stuck() })
	return stuck
}

// abandon lets go of what is in flight still, and tells what was handled, or not even begun, and the server did not take
// back.
func (r *run) abandon() error {
	n := 0
	r.desk.ask(func(t *tracker) {
		for _, f := range t.flights.list {
			if f.left == 0 {
				n++
			}
		}
		r.metrics.inFlight.Sub(float64(t.messages))
	})
	if n == 0 {
		return nil
	}
	r.failure.Lock()
	defer r.failure.Unlock()
	return &UnsettledError{Entries: n, Err: r.failure.last}
}

// leave writes down how far the group is, and takes this member out of it if it holds nothing. Otherwise, or when the
// server is away, others retire it.
func (r *run) leave() {
	ctx, cancel := context.WithTimeout(r.desk.t.values, flushTime)
	defer cancel()
	if err := errors.Join(r.member.Checkpoint(ctx), r.member.Leave(ctx)); err != nil {
		r.log.Warn("consumer not signed off, others will do it", slog.Any("err", err))
	}
}

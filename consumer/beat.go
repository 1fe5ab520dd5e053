package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
)

const (
	// A consumer renews three times a lease, so that it can miss two. One that holds nothing only shows that it is alive,
	// and does so less often; after ten leases of silence others would retire it.
	beatsPerLease   = 3
	idleBeatEvery   = 9 // beats
	retireEvery     = 10 * time.Minute
	retireAtFirstAt = 2 // beats: consumers that never live long retire others too
)

// beatLoop keeps the leases of all that is in flight, begun or not, from fetch to settle. It depends on no handler.
func (r *run) beatLoop() {
	every := r.lease / beatsPerLease
	retireEach := max(1, int(retireEvery/every))
	for n := 1; r.untilBeat(every); n++ {
		if !r.beat(r.exclusive || n%idleBeatEvery == 0) { // an idle owner that is silent for a lease would lose its cursor
			return
		}
		if n%retireEach == min(retireAtFirstAt, retireEach-1) {
			if err := r.member.Retire(r.calls); err != nil && reactionTo(err) != ask && !r.worthWaiting("retire", err) {
				return
			}
		}
	}
}

// untilBeat waits for the next beat, and renews meanwhile what cannot wait for it; false when the loop is to end.
func (r *run) untilBeat(every time.Duration) bool {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-r.calls.Done():
			return false
		case <-timer.C:
			r.urgent.forget()
			return true
		case <-r.urgent.wake:
			if entries := r.urgent.take(r.desk); len(entries) > 0 && !r.renew(entries) {
				return false
			}
		}
	}
}

// beat renews what is in flight, and writes down how far the group is if anything was settled. With neither it sends
// nothing, unless it has to show that it is alive.
func (r *run) beat(show bool) bool {
	entries := r.desk.entries()
	if len(entries) > 0 || show {
		if !r.renew(entries) {
			return false
		}
	}
	return !r.settled.Swap(false) || r.call(r.calls, "checkpoint", func() error { return r.member.Checkpoint(r.calls) })
}

// renew renews entries, at most maxEntries; without any it shows that this member is alive.
func (r *run) renew(entries []codec.EntryID) bool {
	return r.call(r.calls, "renew", func() error { return r.renewNow(entries) })
}

// renewNow is renew for who has the line.
func (r *run) renewNow(entries []codec.EntryID) error {
	entries = r.desk.inFlight(entries)
	gone, err := r.member.Renew(r.calls, entries)
	if c, ok := r.member.(canceller); ok && err == nil {
		r.cancel(c.Cancelled())
	}
	if err != nil || len(gone) == 0 {
		return err
	}
	n := 0
	r.desk.ask(func(t *tracker) { n = t.vanished(gone) })
	r.metrics.lost[lostGone].Add(float64(n))
	r.log.Warn("entries are not pending any more while they are handled: they were trimmed, or settled by another program",
		slog.Int("entries", n), slog.String("first", gone[0].String()))
	return nil
}

// staying is a beat at the pace of beatLoop, for a call that may have the line for longer than a lease.
func (r *run) staying() func(context.Context) error {
	next := time.Now() // the one that was due may wait for the line already
	return func(context.Context) error {
		if time.Now().Before(next) {
			return nil
		}
		next = time.Now().Add(r.lease / beatsPerLease)
		return r.renewNow(r.desk.entries())
	}
}

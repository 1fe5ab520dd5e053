package consumer

import (
	"context"
	"errors"
	"log/slog"

	"github.com/echomq/pipeline/tier"
)

// reaction is what is done about a call's outcome.
type reaction uint8

const (
	goOn   reaction = iota
	again           // after a pause
	ask             // what this member still holds, after making its group again if that is lost, then again
	giveUp          // waiting does not help: the run ends
)

// reactionTo is the one place where errors of the server are told apart.
func reactionTo(err error) reaction {
	if err == nil {
		return goOn
	}
	if errors.Is(err, tier.ErrFenced) {
		return ask
	}
	switch class := tier.Classify(err); {
	case class == nil:
		return giveUp // not of a server or a connection: a removed stream or group, a reply that cannot be read
	case class.Reaction == tier.Heal:
		return ask
	case class.Reaction == tier.Surface:
		return giveUp
	default:
		return again
	}
}

// Repeating a fenced call at once is fine, since each refusal is answered by a Sync; but a member that is fenced each
// time it looks leaves its server a pause.
const fencesInARow = 4

// call makes a call of the member and repeats it until it has succeeded: f does it, and makes the change of the tracker
// that follows from it. All repeats are harmless: what was done the first time is not done twice. It is false when the
// loop is to end, since wait ended while the server was not to be had, or the run failed.
//
// The line keeps the fence tight. A number that a Sync brought allows only what that Sync found, or what was fetched
// since: so what a call carries, and what is known here, must not change while either is under way. Reads, which wait, are
// kept apart from a Sync by a lock of their own.
func (r *run) call(wait context.Context, name string, f func() error) bool {
	return r.repeat(wait, name, f, r.resync)
}

// repeat is call, with what is to be done about a refusal.
func (r *run) repeat(wait context.Context, name string, f, resync func() error) bool {
	for try := 1; ; try++ {
		r.line.Lock()
		err := f()
		r.line.Unlock()
		if reactionTo(err) == ask {
			r.fenced.Store(true)
			if err = resync(); err == nil && try < fencesInARow {
				continue
			}
			if err == nil {
				err = tier.ErrFenced // once more
			}
		}
		if err == nil {
			return true
		}
		if !r.worthWaiting(name, err) || !tier.Pause(wait, tier.CallDelay(try)) || r.calls.Err() != nil {
			return false
		}
	}
}

// worthWaiting notes a failed call, and ends the run if it is one that waiting does not help.
func (r *run) worthWaiting(name string, err error) bool {
	cutOff := r.calls.Err() != nil // by the end of the stop, which is not why earlier ones failed
	r.failure.Lock()
	if !cutOff || r.failure.last == nil {
		r.failure.last = err
	}
	r.failure.Unlock()
	if cutOff {
		return false
	}
	r.metrics.callFails.WithLabelValues(name).Inc()
	if reactionTo(err) == giveUp {
		r.fail(err)
		return false
	}
	r.log.Warn("call failed, it is tried again", slog.String("call", name), slog.Any("err", err))
	return true
}

// resync learns the member's number and what it holds, after a refusal; unless another loop has done so since. It waits
// for a read that is under way. If it did not, a settle with the new number could take from another consumer what the
// read brings late; and if the group was moved back, the read could bring what was handled before that, and a settle
// would take it for settled.
func (r *run) resync() error {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.line.Lock()
	defer r.line.Unlock()
	if !r.fenced.Load() {
		return nil
	}
	held, err := r.sync()
	if err == nil {
		r.reconcile(held)
	}
	return err
}

// sync asks what is held; a group that the server has lost is made again first. The caller has the line and no read is
// under way, until it has reconciled.
func (r *run) sync() ([]tier.Held, error) {
	held, err := r.member.Sync(r.calls)
	if errors.Is(err, tier.ErrNoGroup) {
		if err = r.rebuild(); err == nil {
			held, err = r.member.Sync(r.calls)
		}
	}
	if err == nil {
		r.fenced.Store(false)
		r.uncertain.Store(true)
	}
	return held, err
}

// rebuild makes the group again. What it costs depends on what the server still knew.
func (r *run) rebuild() error {
	was, err := r.member.Rebuild(r.calls)
	if err != nil {
		return err
	}
	r.metrics.rebuilds[was.How].Inc()
	switch was.How { // changes of state: each is told
	case tier.Resumed:
		r.log.Log.Warn("the server had lost the group; it goes on after what was settled at the last checkpoint: what was settled since comes again",
			slog.String("after", was.After.String()))
	case tier.Restarted:
		r.log.Log.Warn("the server had lost the stream; the group begins with what was written since", slog.String("after", was.After.String()))
	}
	return nil
}

// reconcile drops what is held no more, and returns what is held though nobody here knows of it.
func (r *run) reconcile(held []tier.Held) (unknown []tier.Held) {
	lost, unknown := r.desk.reconcile(held)
	if len(lost) > 0 {
		r.metrics.lost[lostLease].Add(float64(len(lost)))
		r.log.Warn("leases lost: this consumer was silent for longer than the lease, or what it handles was reset, or lost by the server",
			slog.Int("entries", len(lost)), slog.String("first", lost[0].entry.String()), slog.Duration("lease", r.lease))
	}
	return unknown
}

// refusesCommit tells whether the server refused to commit entries in a way that concerns these only.
func refusesCommit(err error) bool {
	for _, class := range []*tier.Class{tier.ErrStoreFull, tier.ErrMisconf, tier.ErrPermission, tier.ErrWrongType} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

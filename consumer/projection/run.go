package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/internal/throttle"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

const (
	readWait = time.Second
	dueEvery = 2 * time.Second // letters that were redriven are looked for
	maxRead  = 4 << 20         // bytes that a read should bring
)

// run is one run of a projection. It does one step after another, each of which may be done again:
//
//	stands by ──▶ begins ──▶ reads ──▶ folds ──▶ commits ──▶ reads ...
//	    ▲                                 ▲         │
//	    └── another owns ── fenced ───────┘ failed ─┘  one message gives way, or is tried again
//
// While a batch is committed the next one is folded, on what the first leaves. It is sent once the first is committed, and folded
// again when that is refused, or when a message of its own failed.
type run struct {
	*Projection
	owner *stream.Owner
	log   *slog.Logger
	often *throttle.Logger // of what may be said of every message
	calls context.Context  // of all calls; it outlives Run's

	fenced atomic.Bool // a beat was refused
	begun  bool        // under this ownership
	looked time.Time   // for what is due

	entries []entry    // read, and not committed: those of sent, of next, and more
	upTo    int        // fold so many of them only; 0: as many as fit
	sent    *batch     // being committed: until its outcome is known, nothing but the same may be sent
	next    *batch     // folded on what sent leaves, well or not
	memory  [2]batch   // of these, by turns
	turn    int        // which comes next
	outcome chan error // of the commit that is under way; nil: none is
	commits conc.WaitGroup

	messages, bytes int // the most that an entry had of late

	ahead   chan reading // a read that is under way
	brought int          // number of the last that has come
	reads   conc.WaitGroup
}

func (r *run) loop(ctx context.Context) error {
	for try := 0; ctx.Err() == nil || r.folded() && r.calls.Err() == nil; {
		err := r.step(ctx)
		if err == nil {
			try = 0
			continue
		}
		if ctx.Err() != nil && !r.folded() {
			return nil
		}
		try++
		switch reactionTo(err) {
		case ask:
			if err = r.sync(); err == nil && try < 4 {
				continue
			}
			if err != nil && reactionTo(err) == giveUp {
				return r.failed(err)
			}
		case giveUp:
			return r.failed(err)
		}
		r.log.Warn("step failed, it is tried again", slog.Int("try", try), slog.Any("err", err))
		tier.Pause(r.calls, tier.CallDelay(try))
	}
	return nil
}

// folded: there is something to commit. At a stop it still is, but for what has failed.
func (r *run) folded() bool { return r.sent != nil || r.next != nil && r.next.err == nil }

func (r *run) failed(err error) error {
	return fmt.Errorf("projection %s of %s: %w", r.cursor.Name(), r.cursor.Address(), err)
}

func (r *run) step(ctx context.Context) error {
	switch {
	case r.fenced.Swap(false):
		return tier.ErrFenced
	case !r.owner.Owns():
		r.drop()
		_, err := r.owner.Read(ctx, 1, readWait) // waits for the ownership, and is fenced when it is there
		return err
	case !r.begun:
		epoch, checkpoint := r.owner.Standing()
		err := r.sink.begin(r.calls, epoch, checkpoint)
		if r.begun = err == nil; r.begun {
			r.log.Info("projection is folded here", slog.Uint64("epoch", epoch), slog.String("checkpoint", checkpoint.String()))
		}
		return err
	case r.sent == nil && r.next != nil:
		if r.next.err != nil {
			return r.takeBack(ctx)
		}
		r.sent, r.next = r.next, nil
		r.commit()
		return nil
	case r.sent != nil && r.outcome == nil: // it is sent again
		r.commit()
		return r.committed(<-r.outcome)
	case r.next != nil || r.sent != nil && ctx.Err() != nil:
		return r.committed(<-r.outcome)
	case len(r.waiting()) > 0:
		return r.fold(ctx)
	}
	return r.read(ctx)
}

// waiting are the entries that are not folded yet, while there is nothing but sent.
func (r *run) waiting() []entry {
	if r.sent == nil {
		return r.entries
	}
	return r.entries[len(r.sent.commitment.entries):]
}

// sync asks who owns. What was read is kept only if it still is held, by the same ownership. A read that is under way is waited
// for: it began at a place that Sync may find to be another one. So is a commit, which may come again.
func (r *run) sync() error {
	leased, _ := r.arrived()
	r.took(leased, false)
	r.commits.Wait()
	r.outcome = nil
	held, err := r.owner.Sync(r.calls)
	if err == nil && len(held) == 0 {
		r.drop()
	}
	return err
}

func (r *run) drop() {
	if r.begun {
		r.log.Info("projection is not folded here any more")
	}
	r.begun, r.entries, r.upTo, r.sent, r.next = false, nil, 0, nil, nil
}

// read reads entries, or takes up letters that were redriven.
func (r *run) read(ctx context.Context) error {
	if _, checkpoint := r.owner.Standing(); !checkpoint.IsZero() && time.Since(r.looked) >= dueEvery {
		if r.sent != nil {
			return r.committed(<-r.outcome)
		}
		taken, err := r.owner.Due(r.calls, r.cfg.Batch)
		if err != nil {
			return err
		}
		r.looked = time.Now()
		if len(taken.Leased) > 0 {
			r.took(taken.Leased, true)
			return nil
		}
	}
	if r.ahead == nil {
		r.readAhead(ctx)
	}
	select {
	case err := <-r.outcome:
		return r.committed(err)
	case got := <-r.ahead:
		r.ahead = nil
		if got.err != nil && ctx.Err() != nil {
			return nil // nothing more is read; what is being committed is waited for
		}
		if got.err != nil {
			return got.err
		}
		if r.took(got.leased, false); len(got.leased) > 0 {
			r.readAhead(ctx) // while these are folded and committed
		}
		return nil
	}
}

// reading is what a read brought.
type reading struct {
	leased []tier.Leased
	err    error
}

func (r *run) readAhead(ctx context.Context) {
	n := 1
	if r.bytes > 0 {
		n = max(1, min(r.cfg.Batch/r.messages, maxRead/r.bytes))
	}
	ahead := make(chan reading, 1)
	r.ahead = ahead
	r.reads.Go(func() {
		leased, err := r.owner.ReadOn(ctx, n, readWait)
		ahead <- reading{leased, err}
	})
}

// arrived waits for the read that is under way, if there is one.
func (r *run) arrived() ([]tier.Leased, error) {
	if r.ahead == nil {
		return nil, nil
	}
	got := <-r.ahead
	r.ahead = nil
	return got.leased, got.err
}

func (r *run) took(leased []tier.Leased, late bool) {
	if len(leased) > 0 {
		r.messages, r.bytes = r.messages*7/8, r.bytes*7/8
	}
	r.entries, r.brought = slices.Grow(r.entries, len(leased)), r.brought+1
	for i := range leased {
		l := &leased[i]
		r.messages, r.bytes = max(1, r.messages, len(l.Records)), max(1, r.bytes, l.Bytes)
		r.cfg.Upcasts.Records(l.Records, nil)
		r.entries = append(r.entries, entry{Leased: *l, read: r.brought, late: late})
		r.entries[len(r.entries)-1].look(r.cfg.Attempts)
	}
}

// fold folds a batch.
func (r *run) fold(ctx context.Context) error {
	entries := r.waiting()
	n := fitting(entries, r.cfg.Batch)
	if r.upTo > 0 {
		n = min(n, r.upTo)
	}
	b := &r.memory[r.turn]
	r.turn = 1 - r.turn
	batchOf(b, entries[:n])
	b.writes, b.err = r.sink.fold(r.calls, b)
	r.next, r.upTo = b, 0
	switch {
	case b.err == nil:
		b.commitment = commitmentOf(entries[:n], b)
	case r.sent == nil:
		return r.takeBack(ctx)
	}
	return nil
}

// takeBack takes back what a fold that has failed did, once all before it is committed. When a message has failed, those of the
// entries before it are folded again, without it, and committed; then it is the first, and is tried again until it succeeds or is
// given up.
func (r *run) takeBack(ctx context.Context) error {
	b := r.next
	r.next = nil
	r.sink.forget()
	failed, ok := errors.AsType[*foldError](b.err)
	if !ok {
		return b.err
	}
	at := b.from[failed.index]
	if at.entry > 0 {
		r.upTo = at.entry
		return nil
	}
	r.retry(ctx, at.message, failed.err)
	return nil
}

// retry waits before a message of the first entry is folded again, or gives it up.
func (r *run) retry(ctx context.Context, message int, err error) {
	e := &r.entries[0]
	verdict, pause := consumer.VerdictOf(err)
	attempt := e.attempt(message)
	switch {
	case verdict == consumer.VerdictPermanent:
		r.giveUp(e, message, err)
		return
	case verdict == consumer.VerdictSnooze:
	case e.tries[message]+1 >= r.cfg.Attempts:
		r.giveUp(e, message, fmt.Errorf("attempt %d of %d: %w", attempt, r.cfg.Attempts, err))
		return
	default:
		if e.fail(message); verdict == consumer.VerdictRetry {
			pause = tier.Doubled(e.tries[message], r.cfg.Backoff, max(r.cfg.Backoff, maxBackoff))
		}
		r.log.Warn("message not folded, it is tried again, and all after it wait", slog.String("entry", e.Records[message].Position.String()),
			slog.Int("attempt", attempt), slog.Any("err", err))
	}
	tier.Pause(ctx, pause)
}

func (r *run) giveUp(e *entry, message int, err error) {
	e.giveUp(message, err)
	r.gaveUp(e, message, err)
}

func (r *run) gaveUp(e *entry, message int, err error) {
	r.often.Error("message given up, it goes to the dead letters", slog.String("entry", e.Records[message].Position.String()),
		slog.Int("attempt", e.attempt(message)), slog.Any("err", err))
}

// commit sends the commit of sent, for the first time or again.
func (r *run) commit() {
	c, expected, outcome := r.sent.commitment, r.sent.writes.expected, make(chan error, 1)
	r.outcome = outcome
	r.commits.Go(func() {
		var err error
		if len(c.endings) == 0 {
			_, err = r.owner.Settle(r.calls, c.entries)
		} else {
			err = r.owner.Advance(r.calls, c.entries, c.endings, expected)
		}
		outcome <- err
	})
}

// committed takes the outcome of a commit. What was folded on a batch that is refused is wrong.
func (r *run) committed(err error) error {
	r.outcome = nil
	n := len(r.sent.commitment.entries)
	if bad, ok := errors.AsType[*tier.OutputError](err); ok {
		at, ok := culprit(bad, r.entries[:n], r.sent)
		if !ok {
			return err
		}
		r.giveUp(&r.entries[at.entry], at.message, bad)
		r.sent, r.next = nil, nil
		r.sink.forget()
		return nil
	}
	if errors.Is(err, stream.ErrUnexpected) {
		if why := r.sink.look(r.calls); why != nil {
			err = why
		}
	}
	if err != nil {
		return err
	}
	r.sink.committed()
	for _, dead := range r.sent.writes.dead {
		at := r.sent.from[dead.Index]
		r.gaveUp(&r.entries[at.entry], at.message, dead.Err)
	}
	r.entries, r.sent = slices.Delete(r.entries, 0, n), nil
	return nil
}

// beat keeps the ownership, whatever a fold takes.
func (r *run) beat(ctx context.Context) {
	for tier.Pause(ctx, r.owner.Lease()/3) {
		if _, err := r.owner.Renew(ctx, nil); errors.Is(err, tier.ErrFenced) {
			r.fenced.Store(true)
		}
	}
}

// leave hands the ownership over, with what was read and not committed.
func (r *run) leave() error {
	defer r.owner.Close()
	r.commits.Wait()
	leased, _ := r.arrived()
	r.reads.Wait()
	r.took(leased, false)
	if r.calls.Err() != nil {
		return nil // the lease ends by itself
	}
	held := make([]tier.Returned, len(r.entries))
	for i := range r.entries {
		held[i].Entry = r.entries[i].Entry
	}
	err := r.owner.Release(r.calls, held, 0)
	if err == nil {
		err = r.owner.Leave(r.calls)
	}
	if errors.Is(err, tier.ErrFenced) || tier.Classify(err) != nil {
		return nil // another owns, or will when the lease has ended
	}
	return err
}

package projection

import (
	"context"
	"fmt"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// sink is where messages are folded into.
type sink interface {
	// begin is called with each new ownership, before anything is folded: what is known of the state may be wrong.
	begin(ctx context.Context, epoch uint64, checkpoint codec.EntryID) error
	// fold folds a batch, and says what is to be written with its commit, in memory that is good until the batch is used again. The
	// batch before it may not be committed yet. A *foldError tells which message failed.
	fold(ctx context.Context, b *batch) (writes, error)
	// committed is called when the first batch that was folded and is not committed is. forget takes back all of those, which may
	// be folded again, and what a fold did that has failed; the commit of none is under way.
	committed()
	forget()
	// look tells what is wrong with the state when a commit has not found there what the fold had expected.
	look(ctx context.Context) error
}

// writes are the outputs of a commit, before those that folds emit and after them, and the messages that are given up.
type writes struct {
	before, after []tier.Output
	dead          []MessageError
	expected      stream.Expected // what the state has to have, or nothing of the batch is committed
}

// batch is what is folded and committed at once: whole entries.
type batch struct {
	deliveries []consumer.Delivery // what is not given up, in order
	from       []place             // of each
	through    codec.EntryID       // the last entry
	late       bool                // they were given up before, and are not in the order of the log

	writes     writes
	err        error         // of the fold
	commitment *commitment   // of one that did not fail
	after      []tier.Output // memory of writes
}

// place of a message in the batch's entries.
type place struct{ entry, message int }

// entry was read, and is not committed.
type entry struct {
	tier.Leased
	read   int // which brought it
	late   bool
	tries  map[int]int    // failures of a message here
	reason map[int]string // why it is given up
}

// look notes what cannot be folded: what cannot be read, and what was begun too often without an end.
func (e *entry) look(attempts int) {
	for i := range e.Records {
		switch {
		case e.Records[i].Err != nil:
			e.giveUp(i, e.Records[i].Err)
		case !e.late && e.attempt(i) > attempts:
			e.giveUp(i, fmt.Errorf("begun %d times, of which none ended: its owner died each time", e.attempt(i)-1))
		}
	}
}

func (e *entry) giveUp(message int, err error) {
	if e.reason == nil {
		e.reason = map[int]string{}
	}
	e.reason[message] = reasonOf(err)
}

func reasonOf(err error) string {
	reason := err.Error()
	return reason[:min(len(reason), 1024)]
}

func (e *entry) fail(message int) {
	if e.tries == nil {
		e.tries = map[int]int{}
	}
	e.tries[message]++
}

// attempt that is the next, or was the last.
func (e *entry) attempt(i int) int {
	if e.Open != nil {
		return e.Open[i].Attempt + e.tries[i]
	}
	return e.Deliveries + e.tries[i]
}

// batchOf makes a batch of entries, without what is given up.
func batchOf(b *batch, entries []entry) {
	n := 0
	for i := range entries {
		n += len(entries[i].Records)
	}
	b.deliveries, b.from = slices.Grow(b.deliveries[:0], n), slices.Grow(b.from[:0], n)
	for i := range entries {
		e := &entries[i]
		b.through, b.late = e.Entry, e.late
		for k := range e.Records {
			if _, given := e.reason[k]; !given {
				b.deliveries = append(b.deliveries, consumer.Delivery{Record: e.Records[k], Attempt: e.attempt(k), Replay: e.Replay || e.Records[k].Repeats()})
				b.from = append(b.from, place{i, k})
			}
		}
	}
}

// fitting is how many entries make a batch: so many messages, one entry at least, all of one read: their memory is that of
// the read, which is used again after those of the next one.
func fitting(entries []entry, most int) (n int) {
	for messages := 0; n < len(entries); n++ {
		if messages += len(entries[n].Records); n > 0 && (messages > most || entries[n].read != entries[0].read) {
			break
		}
	}
	return n
}

// commitment is what is committed of a batch: all entries, and what some of them have to say.
type commitment struct {
	entries []codec.EntryID
	endings []tier.Ending // none: nothing to say
}

// commitmentOf says what is given up, and what is written. Outputs stand in the order of the log.
func commitmentOf(entries []entry, b *batch) *commitment {
	w := b.writes
	c := &commitment{entries: make([]codec.EntryID, len(entries))}
	slices.SortFunc(w.dead, func(a, b MessageError) int { return a.Index - b.Index })
	dead, next := w.dead, 0 // of the deliveries
	for i := range entries {
		e := &entries[i]
		c.entries[i] = e.Entry
		ending := tier.Ending{Entry: e.Entry, Deliveries: e.Deliveries}
		first := next
		for next < len(b.deliveries) && b.from[next].entry == i {
			next++
		}
		before := w.before
		if i > 0 {
			before = nil
		}
		ending.Outputs = emitted(before, b.deliveries[first:next])
		switch {
		case i < len(entries)-1:
		case len(ending.Outputs) == 0:
			ending.Outputs = w.after // as a rule, and as many as there are keys
		default:
			ending.Outputs = append(ending.Outputs, w.after...)
		}
		for k := range e.Records {
			reason, given := e.reason[k]
			if !given {
				if len(dead) > 0 && dead[0].Index == first {
					reason, given, dead = reasonOf(dead[0].Err), true, dead[1:]
				}
				first++
			}
			if given {
				ending.Dead = append(ending.Dead, tier.Letter{Index: e.index(k), Reason: reason, Attempts: e.attempt(k)})
			}
		}
		if e.late || len(ending.Dead)+len(ending.Outputs) > 0 {
			c.endings = append(c.endings, ending)
		}
	}
	return c
}

// emitted are outputs, and behind them those of deliveries.
func emitted(before []tier.Output, ds []consumer.Delivery) []tier.Output {
	if len(before) == 0 && len(ds) == 1 {
		return slices.Clip(ds[0].Outputs())
	}
	n := len(before)
	for i := range ds {
		n += len(ds[i].Outputs())
	}
	all := append(make([]tier.Output, 0, n), before...)
	for i := range ds {
		all = append(all, ds[i].Outputs()...)
	}
	return all
}

// index of a message in its pack, -1 for a plain entry.
func (e *entry) index(k int) int {
	if e.Open == nil && len(e.Records) == 1 {
		return -1
	}
	return e.Records[k].Position.Index
}

// culprit is the message that emitted an output; false when it is one of the state.
func culprit(bad *tier.OutputError, entries []entry, b *batch) (place, bool) {
	n := bad.Output
	if entries[0].Entry == bad.Entry {
		n -= len(b.writes.before)
	}
	for i := range b.deliveries {
		if entries[b.from[i].entry].Entry != bad.Entry || n < 0 {
			continue
		}
		outputs := len(b.deliveries[i].Outputs())
		if n < outputs {
			return b.from[i], true
		}
		n -= outputs
	}
	return place{}, false
}

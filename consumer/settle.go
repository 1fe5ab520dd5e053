package consumer

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Bounds of one commit, which the server does in one go. One entry may be more.
const (
	maxEndings  = 512
	maxMessages = 2048
	maxEffects  = 4096
	letterCost  = 32 // effects that a dead letter counts for: the server copies its entry
)

// settler does what is to be done about entries that are through. While one call is under way the next ones gather, so
// calls carry more the busier it gets; at most maxEntries.
type settler struct {
	*run
	by  [verdicts][]*flight
	ids []codec.EntryID
}

func (r *run) settleLoop() {
	s := settler{run: r}
	for last := false; !last; {
		select {
		case <-r.desk.through:
		case <-r.flushing.Done():
			last = true
		}
		for r.desk.collect(&s.by) {
			if !s.settleAll() {
				return
			}
		}
	}
}

func (s *settler) settleAll() bool {
	ok := s.settle() && s.commit() && s.handBack()
	s.desk.remove(s.by[toForget])
	for v := range s.by {
		clear(s.by[v])
		s.by[v] = s.by[v][:0]
	}
	return ok
}

func (s *settler) settle() bool {
	batch := s.by[toSettle]
	return s.call(s.calls, "settle", func() error {
		batch = s.desk.pending(batch)
		s.ids = s.ids[:0]
		for _, f := range batch {
			s.ids = append(s.ids, f.entry)
		}
		if len(batch) == 0 {
			return nil
		}
		_, err := s.member.Settle(s.calls, s.ids) // fewer may be pending, when this is a repeat
		switch {
		case err == nil:
			s.metrics.settled.Add(float64(len(batch)))
			s.settled.Store(true)
			s.desk.remove(batch)
		case tier.OutcomeUnknown(err):
			s.desk.doubt(batch)
		}
		return err
	})
}

func (s *settler) handBack() bool {
	return s.release(s.by[toHandBack], releasedReturned, (*flight).handedBack, 0)
}

func (s *settler) release(batch []*flight, reason string, held func(*flight) tier.Returned, delay time.Duration) bool {
	return s.call(s.calls, "release", func() error {
		batch = s.desk.pending(batch)
		if len(batch) == 0 {
			return nil
		}
		list := make([]tier.Returned, len(batch))
		for i, f := range batch {
			list[i] = held(f)
		}
		err := s.member.Release(s.calls, list, delay)
		if err == nil {
			s.metrics.released[reason].Add(float64(len(batch)))
			s.released(list, time.Now().Add(delay))
		}
		return err
	})
}

func (r *run) released(held []tier.Returned, due time.Time) {
	r.desk.change(func(t *tracker) {
		for _, h := range held {
			t.release(h.Held, due)
		}
	})
}

// commit parks what comes again later, moves what is given up to the dead letters, and writes outputs. When the server
// refuses that (it is full, or the user may not write there), the entries stay pending and come again when their lease is
// over: a full server must not keep this consumer from settling, which is what makes room.
func (s *settler) commit() bool {
	for rest := s.by[toCommit]; len(rest) > 0; {
		n := atOnce(rest)
		if !s.commitBatch(rest[:n]) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// atOnce is how many of the flights, one at least, one call commits.
func atOnce(flights []*flight) (n int) {
	messages, effects := 0, 0
	for n < min(len(flights), maxEndings) {
		messages += len(flights[n].messages)
		effects += flights[n].effects() + letterCost*flights[n].letters()
		if n > 0 && (messages > maxMessages || effects > maxEffects) {
			break
		}
		n++
	}
	return n
}

func (s *settler) commitBatch(batch []*flight) bool {
	refused := false
	ok := s.call(s.calls, "commit", func() error {
		var list []tier.Ending
		var err error
		for bad := (*tier.OutputError)(nil); ; {
			if batch = s.desk.pending(batch); len(batch) == 0 {
				return nil
			}
			list = list[:0]
			for _, f := range batch {
				list = append(list, f.ending())
			}
			if err = s.member.Commit(s.calls, list); !errors.As(err, &bad) {
				break
			}
			i := slices.IndexFunc(batch, func(f *flight) bool { return f.entry == bad.Entry })
			batch[i].refuse(bad.Output, bad.Err) // one less that can be bad, each time
		}
		switch {
		case err == nil:
			s.committed(batch, list)
		case tier.OutcomeUnknown(err):
			s.desk.doubt(batch)
		case refusesCommit(err):
			refused = true
			s.metrics.commitFailures.Add(float64(len(batch)))
			s.log.Error("the server refuses to write outputs, to park messages, or dead letters; they stay pending", slog.Any("err", err))
			return nil
		}
		return err
	})
	if ok && refused {
		return s.release(batch, releasedFailed, (*flight).held, s.lease)
	}
	return ok
}

// committed counts, and tells the fetcher when the first of what was parked is due.
func (s *settler) committed(batch []*flight, list []tier.Ending) {
	s.settled.Store(true)
	for i, f := range batch {
		if len(list[i].Open)+len(list[i].Dead) == 0 {
			s.metrics.settled.Inc()
		}
		for k := range f.messages {
			m := &f.messages[k]
			if m.fate != fateDead {
				continue
			}
			s.metrics.dead[m.death.cause].Inc()
			s.log.Error("a message went to the dead letters",
				slog.String("entry", m.Position.String()), slog.Int("attempts", m.Attempt), slog.String("reason", m.death.reason))
		}
		s.metrics.parked.Add(float64(len(list[i].Open)))
	}
	now := time.Now()
	s.desk.change(func(t *tracker) {
		for i, f := range batch {
			first := firstDue(list[i].Open)
			t.committed(f, first)
			if len(list[i].Open) > 0 {
				t.dueBy(now.Add(first))
			}
		}
	})
}

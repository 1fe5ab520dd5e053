package consumer

import (
	"log/slog"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const maxBury = 128 // entries a call; each is copied by the server

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
	ok := s.settle() && s.bury() && s.retry() && s.handBack()
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

// retry releases entries of which a handler failed. Those of the same attempt share a call, and so a pause.
func (s *settler) retry() bool {
	byAttempt := map[int][]*flight{}
	for _, f := range s.by[toRetry] {
		attempt := f.messages[0].Attempt
		byAttempt[attempt] = append(byAttempt[attempt], f)
	}
	for attempt, batch := range byAttempt {
		if !s.release(batch, toRetry, retryDelay(attempt, s.lease)) {
			return false
		}
	}
	return true
}

func (s *settler) handBack() bool {
	return s.release(s.by[toHandBack], toHandBack, 0)
}

func (s *settler) release(batch []*flight, v verdict, delay time.Duration) bool {
	reason := releasedReturned
	if v == toRetry {
		reason = releasedFailed
	}
	return s.call(s.calls, "release", func() error {
		batch = s.desk.pending(batch)
		if len(batch) == 0 {
			return nil
		}
		held := make([]tier.Held, len(batch))
		for i, f := range batch {
			held[i] = f.held(v)
		}
		err := s.member.Release(s.calls, held, delay)
		if err == nil {
			s.metrics.released[reason].Add(float64(len(batch)))
			s.park(held, time.Now().Add(delay))
		}
		return err
	})
}

func (r *run) park(held []tier.Held, due time.Time) {
	r.desk.change(func(t *tracker) {
		for _, h := range held {
			t.park(h.Entry, due)
		}
	})
}

// bury moves what cannot be read to the dead letters. When the server refuses that (it is full, or the user may not
// write there), the entries stay pending and are tried again when their lease is over: a full server must not keep this
// consumer from settling, which is what makes room.
func (s *settler) bury() bool {
	byReason := map[string][]*flight{}
	for _, f := range s.by[toBury] {
		reason := f.poison.Error()
		byReason[reason] = append(byReason[reason], f)
	}
	for reason, same := range byReason {
		for batch := range slices.Chunk(same, maxBury) {
			if !s.buryBatch(batch, reason) {
				return false
			}
		}
	}
	return true
}

func (s *settler) buryBatch(batch []*flight, reason string) bool {
	refused := false
	ok := s.call(s.calls, "bury", func() error {
		batch = s.desk.pending(batch)
		if len(batch) == 0 {
			return nil
		}
		held := make([]tier.Held, len(batch))
		for i, f := range batch {
			held[i] = f.held(toBury)
		}
		err := s.member.Bury(s.calls, held, reason)
		switch {
		case err == nil:
			s.metrics.buried.Add(float64(len(batch)))
			s.log.error("entries that cannot be decoded went to the dead letters",
				slog.Int("entries", len(batch)), slog.String("entry", batch[0].entry.String()), slog.String("reason", reason))
			s.desk.remove(batch)
		case refusesLetters(err):
			refused = true
			s.metrics.buryFailures.Add(float64(len(batch)))
			s.log.error("the server refuses dead letters; what cannot be decoded stays pending", slog.Any("err", err))
			return nil
		}
		return err
	})
	if ok && refused {
		return s.release(batch, toRetry, s.lease)
	}
	return ok
}

package consumer

import (
	"log/slog"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const maxAside = 128 // entries a call: what is given up is copied by the server

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
	ok := s.settle() && s.aside() && s.handBack()
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
			s.park(list, time.Now().Add(delay))
		}
		return err
	})
}

func (r *run) park(held []tier.Returned, due time.Time) {
	r.desk.change(func(t *tracker) {
		for _, h := range held {
			t.park(h.Entry, due)
		}
	})
}

// aside parks what comes again later, and moves what is given up to the dead letters. When the server refuses that (it is
// full, or the user may not write there), the entries stay pending and come again when their lease is over: a full server
// must not keep this consumer from settling, which is what makes room.
func (s *settler) aside() bool {
	for batch := range slices.Chunk(s.by[toAside], maxAside) {
		if !s.asideBatch(batch) {
			return false
		}
	}
	return true
}

func (s *settler) asideBatch(batch []*flight) bool {
	refused := false
	ok := s.call(s.calls, "put_aside", func() error {
		batch = s.desk.pending(batch)
		if len(batch) == 0 {
			return nil
		}
		list := make([]tier.Aside, len(batch))
		for i, f := range batch {
			list[i] = f.aside()
		}
		err := s.member.PutAside(s.calls, list)
		switch {
		case err == nil:
			s.wasPutAside(batch, list)
		case tier.OutcomeUnknown(err):
			s.desk.doubt(batch)
		case refusesAside(err):
			refused = true
			s.metrics.asideFailures.Add(float64(len(batch)))
			s.log.error("the server refuses to park messages, or dead letters; they stay pending", slog.Any("err", err))
			return nil
		}
		return err
	})
	if ok && refused {
		return s.release(batch, releasedFailed, (*flight).held, s.lease)
	}
	return ok
}

// wasPutAside counts, and tells the fetcher when the first of them is due.
func (s *settler) wasPutAside(batch []*flight, list []tier.Aside) {
	s.settled.Store(true)
	next, some := time.Duration(0), false
	for i, f := range batch {
		for k := range f.messages {
			m := &f.messages[k]
			if m.fate != fateDead {
				continue
			}
			s.metrics.dead[m.cause].Inc()
			s.log.error("a message went to the dead letters",
				slog.String("entry", m.Position.String()), slog.Int("attempts", m.Attempt), slog.String("reason", m.reason))
		}
		for _, o := range list[i].Open {
			s.metrics.parked.Inc()
			if !some || o.Delay < next {
				next, some = o.Delay, true
			}
		}
	}
	now := time.Now()
	s.desk.change(func(t *tracker) {
		for i, f := range batch {
			t.putAside(f, firstDue(list[i].Open))
		}
		if some {
			t.dueBy(now.Add(next))
		}
	})
}

package consumer

import (
	"slices"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// maxParked are the parked messages that are known here at most while new ones are read: of each the key is in memory.
	maxParked = 1 << 16
	// spareLanes are kept for reuse.
	spareLanes = 1024
)

// lanes are all the lanes of a tracker, and the order in which they come to a worker. They belong to it, and do no I/O.
type lanes struct {
	strict bool
	now    func() time.Time
	byKey  map[string]*lane
	spare  []*lane
	ready  fifo[ready]
	held   map[*flight][]*lane       // by messages that are done, until all of the entry is through
	places map[codec.EntryID][]place // of what is parked
	parked int                       // messages of places
	woken  int                       // came to be ready, and no worker was told
	strays map[codec.EntryID]bool    // released, and nobody knows what is in them: nothing that is newer may be read
}

// ready is what a worker can begin: the next of a lane, or one without a lane.
type ready struct {
	turn
	lane *lane
}

// place is a parked message of an entry.
type place struct {
	index int
	lane  *lane
}

// newLanes is nil for None.
func newLanes(o Order) *lanes {
	if o == None {
		return nil
	}
	return &lanes{
		strict: o == Strict, now: time.Now,
		byKey: map[string]*lane{}, held: map[*flight][]*lane{}, places: map[codec.EntryID][]place{}, strays: map[codec.EntryID]bool{},
	}
}

// of is the lane of a key, made if there is none; nil for a message that waits for nobody.
func (s *lanes) of(key string) *lane {
	if s.strict {
		key = ""
	} else if key == "" {
		return nil
	}
	l := s.byKey[key]
	if l == nil {
		if n := len(s.spare); n > 0 {
			l, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			l = new(lane)
		}
		l.key = strings.Clone(key) // a part of the server's reply would keep all of it
		s.byKey[l.key] = l
	}
	return l
}

// push lets a message wait for its turn. Behind a parked one it is judged at once, unless the lane is a strict one.
func (s *lanes) push(w turn) {
	w.f.left++
	l := s.of(w.m.Key)
	w.m.lane = l
	switch {
	case l == nil:
		s.ready.push(ready{turn: w})
		s.woken++
	case s.parksBehind(l, w.m.Position):
		s.parkBehind(l, w)
	default:
		l.wait(w)
		s.offer(l)
	}
}

// parksBehind says whether a message is parked with those before it. Of a strict lane each stays where it is, since nothing
// else could be done meanwhile: so none is parked while one before it is in flight. But an entry is parked as a whole.
func (s *lanes) parksBehind(l *lane, at codec.Position) bool {
	if !s.strict {
		return l.blocked(at)
	}
	i, _ := l.place(at)
	return i > 0 && l.parked[i-1].at.Entry == at.Entry
}

// parkBehind judges a message whose lane is blocked: it comes again after those before it, and this attempt does not count.
func (s *lanes) parkBehind(l *lane, w turn) {
	now := s.now()
	w.m.fate, w.m.pause = fateLater, l.behind(w.m.Position, now)
	w.f.left--
	s.note(l, w.m.Position, now.Add(w.m.pause))
}

// offer makes a lane ready if it can go on, and forgets it if nothing is left of it.
func (s *lanes) offer(l *lane) {
	_, can := l.next()
	switch {
	case l.queued:
	case can:
		l.queued = true
		s.ready.push(ready{lane: l})
		s.woken++
	case !l.busy && l.waiting.count == 0 && len(l.parked) == 0 && len(l.holders) == 0:
		delete(s.byKey, l.key)
		l.key, l.parked = "", nil
		if len(s.spare) < spareLanes && len(l.waiting.ring) <= 16 {
			s.spare = append(s.spare, l)
		}
	}
}

// begin is the next message to begin, if there is any.
func (s *lanes) begin() (turn, bool) {
	for s.ready.count > 0 {
		r := s.ready.first()
		s.ready.pop()
		l := r.lane
		if l == nil {
			if r.isOpen() {
				return r.turn, true
			}
			continue
		}
		l.queued = false
		w, can := l.next()
		if !can {
			s.offer(l) // which may be its end
			continue
		}
		l.waiting.pop()
		l.busy = true
		return w, true
	}
	return turn{}, false
}

// end notes that a message of a lane is at work no more.
func (s *lanes) end(l *lane) {
	if l != nil {
		l.busy = false
		s.offer(l)
	}
}

// hold keeps later entries from a lane of which a message is done, until its own entry is through.
func (s *lanes) hold(l *lane, f *flight) {
	if !slices.Contains(l.holders, f) {
		l.holders = append(l.holders, f)
		s.held[f] = append(s.held[f], l)
	}
}

// letGo ends that.
func (s *lanes) letGo(f *flight) {
	for _, l := range s.held[f] {
		l.holders = slices.DeleteFunc(l.holders, func(h *flight) bool { return h == f })
		s.offer(l)
	}
	delete(s.held, f)
}

// note notes that a message is parked, or will be.
func (s *lanes) note(l *lane, at codec.Position, due time.Time) {
	if l.park(at, due) {
		s.places[at.Entry] = append(s.places[at.Entry], place{at.Index, l})
		s.parked++
	}
}

// block parks a message, and all that wait behind it and are parked with it; judged is told of each of these.
func (s *lanes) block(l *lane, at codec.Position, due time.Time, judged func(f *flight)) {
	if l == nil {
		return
	}
	s.note(l, at, due)
	for n := l.waiting.count; n > 0; n-- {
		w := l.waiting.first()
		l.waiting.pop()
		switch {
		case !w.isOpen():
		case !s.parksBehind(l, w.m.Position):
			l.waiting.push(w)
		default:
			s.parkBehind(l, w)
			judged(w.f)
		}
	}
}

// unpark forgets what was parked of an entry: it is here again, or done, or nobody's any more.
func (s *lanes) unpark(e codec.EntryID) {
	if s.parked == 0 {
		return
	}
	for _, p := range s.places[e] {
		s.parked--
		p.lane.unpark(codec.Position{Entry: e, Index: p.index})
		s.offer(p.lane)
	}
	delete(s.places, e)
}

// committed notes when the messages of an entry are due, now that they are parked, and forgets those that were given up.
func (s *lanes) committed(f *flight, first time.Duration) {
	due := s.now().Add(first)
	for i := range f.messages {
		m := &f.messages[i]
		switch {
		case m.lane == nil:
		case m.fate == fateAgain || m.fate == fateLater:
			s.note(m.lane, m.Position, due)
		case m.fate == fateDead:
			m.lane.unpark(m.Position)
		}
	}
	was := s.places[f.entry]
	kept := was[:0]
	for _, p := range was {
		if _, is := p.lane.place(codec.Position{Entry: f.entry, Index: p.index}); is {
			kept = append(kept, p)
			continue
		}
		s.parked--
		s.offer(p.lane)
	}
	if s.places[f.entry] = kept; len(kept) == 0 {
		delete(s.places, f.entry)
	}
}

// learn compares with what is parked according to the source. Entries that are here are known better. It returns how much
// was not known, or was no more.
func (s *lanes) learn(found []tier.Parked, here func(codec.EntryID) bool, judged func(*flight)) (wrong int) {
	now, is := s.now(), make(map[codec.EntryID]bool, len(found))
	for i := range found {
		is[found[i].Position.Entry] = true
	}
	for e := range s.places {
		if !is[e] && !here(e) {
			wrong++
			s.unpark(e)
		}
	}
	for i := range found {
		p := &found[i]
		if here(p.Position.Entry) {
			continue
		}
		l, due := s.of(p.Key), now.Add(p.Delay)
		if l == nil {
			continue
		}
		if _, known := l.place(p.Position); known {
			l.park(p.Position, due)
			continue
		}
		wrong++
		s.block(l, p.Position, due, judged)
	}
	return wrong
}

// overdue says whether something should have been here before a time, and is not.
func (s *lanes) overdue(before time.Time, here func(codec.EntryID) bool) bool {
	for e, places := range s.places {
		if p := places[0]; !here(e) {
			if i, is := p.lane.place(codec.Position{Entry: e, Index: p.index}); is && p.lane.parked[i].due.Before(before) {
				return true
			}
		}
	}
	return false
}

// narrow leaves of the room what order allows to be used.
func (s *lanes) narrow(r *room, workers int) {
	r.hungry = s.ready.count < workers
	if s.parked >= maxParked || len(s.strays) > 0 {
		r.read = 0
	}
	if s.strict && s.parked > 0 {
		if l := s.byKey[""]; l != nil && l.waiting.count > 0 {
			r.read = 0
		}
		r.take = max(1, r.take) // what is in flight waits for what is parked
	}
}

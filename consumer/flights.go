package consumer

import "github.com/echomq/pipeline/codec"

// flights are all entries in flight. Each message passes through here, but hardly anybody asks for one by its entry: so an
// index is made when somebody does, and dropped with the next read of new ones.
type flights struct {
	list   []*flight
	index  map[codec.EntryID]*flight // of list; nil: not made
	newest codec.EntryID             // that ever was here: none above it is
}

func (s *flights) count() int { return len(s.list) }

// of is the flight of an entry, nil if there is none.
func (s *flights) of(e codec.EntryID) *flight {
	if e.Compare(s.newest) > 0 {
		return nil
	}
	if s.index == nil {
		s.index = make(map[codec.EntryID]*flight, len(s.list))
		for _, f := range s.list {
			s.index[f.entry] = f
		}
	}
	return s.index[e]
}

// unindex is for when nobody is about to ask.
func (s *flights) unindex() { s.index = nil }

func (s *flights) add(f *flight) {
	f.at, f.here = len(s.list), true
	s.list = append(s.list, f)
	if f.entry.Compare(s.newest) > 0 {
		s.newest = f.entry
	}
	if s.index != nil {
		s.index[f.entry] = f
	}
}

// remove has the last of the list take the place of one.
func (s *flights) remove(f *flight) {
	f.here = false
	n := len(s.list) - 1
	last := s.list[n]
	s.list[f.at], last.at = last, f.at
	s.list[n] = nil // what it held can be collected
	s.list = s.list[:n]
	if s.index != nil {
		delete(s.index, f.entry)
	}
}

package consumer

import "github.com/echomq/pipeline/tier"

const (
	maxRead = 512 // entries that are asked for at once: the server gives that many, whatever they weigh

	// maxFetch is what a fetch should weigh: it has to come within the time of a call, over a slow network too.
	maxFetch = 1 << 20

	perMessage = 512 // bytes that a message takes here beside its own
	sharedSize = 1 << 10
)

// size is what entries have of messages and bytes: the most of late. The zero value is unknown.
type size struct{ messages, bytes int }

// learn follows entries that grow at once, and entries that shrink slowly.
func (s *size) learn(leased []tier.Leased) {
	if len(leased) == 0 {
		return
	}
	most := size{1, 1}
	for i := range leased {
		most.messages = max(most.messages, leased[i].Messages())
		most.bytes = max(most.bytes, weightOf(&leased[i]))
	}
	s.messages = max(most.messages, s.messages-(s.messages+7)/8)
	s.bytes = max(most.bytes, s.bytes-(s.bytes+7)/8)
}

// entries is how many entries to ask for, at most most, so that they fit; one at least, if there is any room. The first
// time it is one, which may be a pack, or large.
func (r room) entries(most int, s size) int {
	if s.messages == 0 {
		return 1
	}
	return max(1, min(most, maxRead, r.messages/s.messages, min(r.bytes, maxFetch)/s.bytes))
}

// worthReading waits for a quarter of the room, so that reads are not small, unless workers are about to run dry.
func (r room) worthReading(messages, bytes int) bool {
	return r.read > 0 && (r.hungry || 4*r.messages >= messages && 4*r.bytes >= bytes)
}

// without is the room that is left when n entries have come, with which workers do not run dry.
func (r room) without(n int, s size) room {
	r.messages = max(0, r.messages-n*s.messages)
	r.bytes = max(0, r.bytes-n*s.bytes)
	r.read = min(r.read-n, r.messages)
	r.hungry = false
	return r
}

// weightOf is what an entry takes here.
func weightOf(l *tier.Leased) int { return l.Bytes + perMessage*l.Messages() }

// block is the memory of flights that were fetched together. Only small ones share it: while one of them is in flight,
// so is all that they hold.
type block struct {
	flights  []flight
	messages []message
}

func newBlock(leased []tier.Leased) *block {
	flights, messages := 0, 0
	for i := range leased {
		if l := &leased[i]; l.Bytes <= sharedSize && l.Pack == nil {
			flights++
			messages += len(l.Records)
		}
	}
	return &block{flights: make([]flight, flights), messages: make([]message, messages)}
}

func (b *block) flight(l *tier.Leased) *flight {
	n := len(l.Records)
	if l.Pack != nil {
		f := &packed{pack: *l.Pack}
		f.flight.pack = &f.pack
		return &f.flight
	}
	if l.Bytes > sharedSize {
		return &flight{messages: make([]message, n)}
	}
	f := &b.flights[0]
	f.messages, b.messages = b.messages[:n:n], b.messages[n:]
	b.flights = b.flights[1:]
	return f
}

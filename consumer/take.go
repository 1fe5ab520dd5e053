package consumer

import (
	"context"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// maxUnsuspected are the deliveries of an entry that may come with others. One that two consumers have let go of is taken
// over alone.
const maxUnsuspected = 2

// take adds what was taken over and returns how many messages it has for workers. An entry that is in flight already,
// taken over from oneself after a pause, goes on as it is. After close, what is taken is handed back.
func (t *tracker) take(leased []tier.Leased) (fresh int) {
	shared := newBlock(leased)
	for i := range leased {
		l := &leased[i]
		if f := t.flights.of(l.Entry); f != nil {
			f.deliveries, f.gone = l.Deliveries, false
			continue
		}
		fresh += t.add(shared.flight(l), l)
	}
	return fresh
}

// takeNew adds what was read. A group gives each entry out once, so one that is in flight already shows that the group
// was moved back, and that its old delivery is void: it ends, and the contexts to end are returned.
func (t *tracker) takeNew(leased []tier.Leased) (fresh int, running []*message) {
	shared := newBlock(leased)
	t.flights.unindex()
	for i := range leased {
		l := &leased[i]
		if f := t.flights.of(l.Entry); f != nil {
			running = append(running, t.drop(f)...)
		}
		fresh += t.add(shared.flight(l), l)
	}
	return fresh, running
}

func (t *tracker) add(f *flight, l *tier.Leased) (fresh int) {
	f.entry, f.deliveries, f.weight = l.Entry, l.Deliveries, weightOf(l)
	t.unrelease(f.entry)
	ordered := t.lanes != nil && !t.closed
	if ordered {
		t.lanes.unpark(f.entry)
	}
	if f.n = l.Messages(); l.Pack != nil {
		return t.addPack(f)
	}
	crashes, alone := evidence(l)
	begun := false
	for i := range l.Records {
		m := &f.messages[i]
		m.Record, m.Attempt, m.Replay, m.Terms, m.ctx.Context = l.Records[i], l.Deliveries, l.Replay || l.Records[i].Repeats(), l.Terms, t.values
		if f.narrowed = l.Open != nil; f.narrowed {
			m.Attempt = l.Open[i].Attempt
		}
		late := f.narrowed && l.Open[i].Delay > 0
		if late || alone && begun { // it is not begun, and was not in the deliveries that did not end
			m.Attempt -= crashes
		}
		policy := t.policy.of(m.Terms)
		m.MaxAttempts = policy.deliveries
		reason, exhausted := policy.exhausted(m.Attempt)
		switch {
		case m.Err != nil:
			m.fate, m.death = fateDead, &death{clip(m.Err.Error()), deadUndecodable}
		case exhausted:
			m.fate, m.death = fateDead, &death{reason, deadUnfinished}
			begun = true // it has had its turn
		case late:
			m.fate, m.pause = fateLater, l.Open[i].Delay
		case alone && begun:
			m.fate, m.alone = fateLater, true
		case ordered:
			begun = true
			t.lanes.push(turn{f: f, m: m})
			continue // what the lanes have is made idle by shut, below
		default:
			begun = true
			f.left++
			continue
		}
		m.idle.Store(true)
		if ordered && m.fate == fateLater {
			t.blockLane(m)
		}
	}
	t.count(f)
	if f.suspect = l.Deliveries > maxUnsuspected; f.suspect {
		t.suspects++
	}
	if t.closed {
		f.left = 0
	}
	if f.left > 0 && !ordered {
		t.waiting.push(f)
		return f.left
	}
	if f.shut(); f.left == 0 { // else the lanes have them
		t.isThrough(f)
	}
	return 0
}

func (t *tracker) count(f *flight) {
	t.flights.add(f)
	t.messages += f.n
	t.bytes += f.weight
}

// addPack adds a pack that was read, for a worker to decode.
func (t *tracker) addPack(f *flight) (fresh int) {
	t.count(f)
	if t.closed {
		t.isThrough(f)
		return 0
	}
	f.left = f.n
	t.waiting.push(f)
	return 1
}

// unpack decodes a pack. Called without the lock; unpacked takes the result under it.
func unpack(values context.Context, p *codec.Pack, policy policy, upcasts codec.Upcasts) (messages []message) {
	p.Unpack(func(n int) func(int) *codec.Record {
		messages = make([]message, n)
		return func(i int) *codec.Record { return &messages[i].Record }
	})
	for i := range messages {
		m := &messages[i]
		upcasts.Record(&m.Record, nil)
		m.Attempt, m.MaxAttempts, m.Replay, m.ctx.Context = 1, policy.deliveries, m.Repeats(), values
		if m.Err != nil {
			m.fate, m.death = fateDead, &death{clip(m.Err.Error()), deadUndecodable}
			m.idle.Store(true)
		}
	}
	return messages
}

// unpacked puts the messages of a pack in its place, and gives out the first of them, if any is to be begun: others may help its worker with
// the rest before they decode another.
func (t *tracker) unpacked(f *flight, messages []message) (turn, bool) {
	t.unpacking = false
	if f.pack = nil; !f.here {
		return turn{}, false // it was lost meanwhile
	}
	t.messages += len(messages) - f.n
	f.messages, f.n, f.left = messages, len(messages), 0
	for i := range messages {
		if messages[i].fate == fateOpen {
			f.left++
		}
	}
	if t.closed {
		f.left = 0
	}
	if f.left == 0 {
		f.shut()
		t.isThrough(f)
		return turn{}, false
	}
	t.waiting.unshift(f)
	return t.begin()
}

// evidence is how many deliveries of an entry have not ended in a row before this one, and whether, after two, its messages are
// begun one at a time: each of them may be what ended them, and none is to suffer for another.
func evidence(l *tier.Leased) (crashes int, alone bool) {
	if l.Open == nil {
		crashes = l.Deliveries - 1
		return crashes, crashes >= maxUnsuspected && len(l.Records) > 1
	}
	alone = l.Crashes >= maxUnsuspected
	for i := range l.Open {
		alone = alone || l.Open[i].Suspect
	}
	return l.Crashes, alone && len(l.Open) > 1
}

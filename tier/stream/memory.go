package stream

import (
	"sync"

	"github.com/echomq/pipeline/codec"
)

// memory is what a batch of many messages is kept in, which the next one of any writer takes over: what is published as fast as it goes would
// else be cleared, and looked through for garbage, at the price of half of its way to the server.
type memory struct {
	messages []string
	notify   []func(codec.ID, error)
	shelves  []*[shelfBytes]byte
	used     int // of the shelves
	shelf
}

var memories = sync.Pool{New: func() any { return new(memory) }}

// room is for a message of so many bytes at most.
func (m *memory) room(size int) []byte {
	if size > len(m.free) && size <= shelfBytes/8 {
		if m.used == len(m.shelves) {
			m.shelves = append(m.shelves, new([shelfBytes]byte))
		}
		m.free = m.shelves[m.used][:]
		m.used++
	}
	return m.shelf.room(size)
}

// give gives the memory of a batch away, whose messages nobody looks at any more.
func (b *batch) give() {
	m := b.memory
	clear(b.messages)
	clear(b.notify)
	m.messages, m.notify, m.free, m.used = b.messages[:0], b.notify[:0], nil, 0
	b.memory, b.messages, b.notify = nil, nil, nil
	memories.Put(m)
}

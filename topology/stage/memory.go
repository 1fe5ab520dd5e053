package stage

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// memory is the state of a stage: cells that end at a time, all of them here, and as JSON in a hash at the server, which is
// written with the commit of the messages that changed them. The field without a name holds what is of all of them.
type memory[T any] struct {
	client       *tier.Client
	scope, state string
	shape        string                 // of the declaration, and so of what is stored
	tie          func(id string) string // by which cells that end together are ordered; nil: the id

	cells map[string]*cell[T]
	due   dueHeap[T]
	clock clock

	fresh   bool // nothing was committed: whatever is stored is of another stage
	made    bool // and gives way with what was handled
	loaded  bool
	ticked  bool // the clock has moved since the last batch
	dirty   []*cell[T]
	removed []string
}

// cell is one of them.
type cell[T any] struct {
	id     string
	tie    string
	end    int64 // Unix ms; it may grow, not shrink
	value  T
	queued int64 // the end that it is in the heap with
	at     int   // in the heap
	dirty  bool
	stored bool // with what was handled
	gone   bool
}

// clock is how far the messages' time is.
type clock struct {
	Shape string `json:"shape"`
	Max   int64  `json:"max"` // Unix ms
	Any   bool   `json:"any"` // there was a message
}

// stored is a cell at the server.
type stored[T any] struct {
	End   int64 `json:"end"`
	Value T     `json:"value"`
}

// ShapeError says that the state of a stage was made by another declaration of it.
type ShapeError struct{ State, Have, Want string }

func (e *ShapeError) Error() string {
	return fmt.Sprintf("stage: the state %s was made by another declaration (%.200s), which is now %.200s: give the stage another name, or put back its declaration until what is open is through", e.State, e.Have, e.Want)
}

// begin forgets all; the state is read when it is asked for.
func (m *memory[T]) begin(checkpoint codec.EntryID) {
	m.fresh = checkpoint.IsZero()
	m.forget()
}

func (m *memory[T]) forget() {
	m.cells, m.due, m.clock = map[string]*cell[T]{}, nil, clock{Shape: m.shape}
	m.made, m.loaded, m.ticked, m.dirty, m.removed = false, false, false, nil, nil
}

// load reads the state, unless it is here.
func (m *memory[T]) load(ctx context.Context) error {
	if m.loaded || m.fresh {
		m.loaded = true
		return nil
	}
	fields, err := m.client.StateAll(ctx, m.scope, m.state)
	if err != nil {
		return err
	}
	text, ok := fields[""]
	if !ok {
		return &projection.StateLostError{Stream: m.scope, State: m.state}
	}
	if err := json.Unmarshal([]byte(text), &m.clock); err != nil {
		return fmt.Errorf("stage: state %s: %w", m.state, err)
	}
	if m.clock.Shape != m.shape {
		return &ShapeError{m.state, m.clock.Shape, m.shape}
	}
	delete(fields, "")
	for id, text := range fields {
		var s stored[T]
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return fmt.Errorf("stage: state %s, field %.64q: %w", m.state, id, err)
		}
		m.put(id, s.End, s.Value).stored = true
	}
	m.loaded = true
	return nil
}

// tick moves the clock on, never back.
func (m *memory[T]) tick(to int64) {
	if !m.clock.Any || to > m.clock.Max {
		m.clock.Max, m.clock.Any, m.ticked = to, true, true
	}
}

func (m *memory[T]) add(id string, end int64, value T) *cell[T] {
	c := m.put(id, end, value)
	m.changed(c)
	return c
}

func (m *memory[T]) put(id string, end int64, value T) *cell[T] {
	c := &cell[T]{id: id, tie: id, end: end, queued: end, value: value}
	if m.tie != nil {
		c.tie = m.tie(id)
	}
	m.cells[id] = c
	heap.Push(&m.due, c)
	return c
}

func (m *memory[T]) changed(c *cell[T]) {
	if !c.dirty {
		c.dirty = true
		m.dirty = append(m.dirty, c)
	}
}

func (m *memory[T]) remove(c *cell[T]) {
	heap.Remove(&m.due, c.at)
	delete(m.cells, c.id)
	if c.gone = true; c.stored {
		m.removed = append(m.removed, c.id)
	}
}

// first is the cell that ends first, nil when there is none that ends at or before a time.
func (m *memory[T]) first(upTo int64) *cell[T] {
	for len(m.due) > 0 && m.due[0].queued <= upTo {
		c := m.due[0]
		if c.end == c.queued {
			return c
		}
		c.queued = c.end
		heap.Fix(&m.due, 0)
	}
	return nil
}

// effects are what is to be written with the commit of a batch.
func (m *memory[T]) effects() (e projection.Effects, err error) {
	first := m.fresh && !m.made
	if first {
		e.Before = []tier.Output{tier.Delete(m.state)}
	}
	if first || m.ticked {
		text, err := json.Marshal(m.clock)
		if err != nil {
			return e, err
		}
		e.After = append(e.After, tier.HashSet(m.state, "", string(text)))
	}
	for _, id := range m.removed {
		if _, again := m.cells[id]; !again {
			e.After = append(e.After, tier.Remove(m.state, id))
		}
	}
	for _, c := range m.dirty {
		if c.gone {
			continue
		}
		text, err := json.Marshal(stored[T]{c.end, c.value})
		if err != nil {
			return e, fmt.Errorf("stage: state %s: %w", m.state, err)
		}
		e.After = append(e.After, tier.HashSet(m.state, c.id, string(text)))
		c.dirty, c.stored = false, true
	}
	m.made, m.ticked, m.dirty, m.removed = true, false, m.dirty[:0], m.removed[:0]
	return e, nil
}

// committed notes that the effects of a batch were written.
func (m *memory[T]) committed() { m.fresh = false }

// dueHeap has the cell that ends first on top, of those that end together the one with the lowest tie.
type dueHeap[T any] []*cell[T]

func (h dueHeap[T]) Len() int { return len(h) }
func (h dueHeap[T]) Less(i, j int) bool {
	return h[i].queued < h[j].queued || h[i].queued == h[j].queued && h[i].tie < h[j].tie
}

func (h dueHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *dueHeap[T]) Push(x any) {
	c := x.(*cell[T])
	c.at = len(*h)
	*h = append(*h, c)
}

func (h *dueHeap[T]) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}

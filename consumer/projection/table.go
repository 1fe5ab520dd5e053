package projection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// schemaField of a state holds its schema. No key is empty.
const schemaField = ""

const defaultCached = 100_000

// Fold is the state after a message, given that before it, at first the zero S. It may change the state that it is given, and
// depends on nothing else than its arguments. What it emits happens with the message, exactly once. It keeps neither d nor
// what d holds.
type Fold[S any] func(state S, d *consumer.Delivery) (S, error)

// TableConfig of a Table. Address, Name and Fold are needed.
type TableConfig[S any] struct {
	Config
	// Fold makes the state of a key from its messages.
	Fold Fold[S]
	// Key is the key whose state a message changes. Default the message's Key. Messages whose key is empty are passed over.
	Key func(d *consumer.Delivery) string
	// Codec is how states are stored. Default codec.Msgpack; codec.JSON is for readers that are other programs.
	Codec codec.Codec[S]
	// Schema is the number of S, as stored. A state of another one is refused, with advice to raise Version.
	Schema int
	// Rank gives each key a place in an order: a sorted set beside the states, with what it says of each state as the score.
	// Nil: none.
	Rank func(state S) float64
	// Cached is how many states are kept in memory, at most and beside those of a batch. Default 100,000. Small, they are read
	// again; large, memory grows.
	Cached int
}

func (c *TableConfig[S]) setDefaults() {
	if c.Key == nil {
		c.Key = func(d *consumer.Delivery) string { return d.Key }
	}
	if c.Codec == nil {
		c.Codec = codec.Msgpack[S]()
	}
	if c.Cached == 0 {
		c.Cached = defaultCached
	}
}

// Table is a projection into a hash at the server: a field for each key, which holds its state.
type Table[S any] struct {
	*Projection
	cfg   TableConfig[S]
	cells map[string]*cell[S] // as the server will have them when what is folded is committed
	spare []cell[S]           // of cells, which are forgotten together
	of    []*cell[S]          // each message of the batch, nil of one that is passed over
	dirty []*cell[S]          // in the batch, in order
	fresh bool                // nothing is committed yet: whatever stands there is of another one
	made  bool                // and gives way with what is folded

	stored codec.Message // memory of a state that is stored

	batches, done int // that were folded, and of these committed
}

// cell is the state of a key.
type cell[S any] struct {
	key   string
	value S
	there bool
	dirty bool
	batch int // the last one that has a message of it
}

// spareCells are made at once.
const spareCells = 256

// NewTable checks the configuration. It sends nothing.
func NewTable[S any](client *tier.Client, cfg TableConfig[S]) (*Table[S], error) {
	if cfg.Fold == nil {
		return nil, fmt.Errorf("%w: Fold is needed: it says what a message means", consumer.ErrConfig)
	}
	if cfg.Cached < 0 {
		return nil, fmt.Errorf("%w: Cached is %d, want more than nothing", consumer.ErrConfig, cfg.Cached)
	}
	cfg.setDefaults()
	t := &Table[S]{cfg: cfg}
	var err error
	if t.Projection, err = newProjection(client, cfg.Config, tableSink[S]{t}); err != nil {
		return nil, err
	}
	return t, nil
}

// State is the name of the state, a hash; that of the order is RankOf(State()).
func (t *Table[S]) State() string { return t.cursor.Name() }

// RankOf is the name of the sorted set beside a state.
func RankOf(state string) string { return state + ".rank" }

// tableSink keeps the methods of a sink out of Table's.
type tableSink[S any] struct{ t *Table[S] }

func (s tableSink[S]) begin(ctx context.Context, _ uint64, checkpoint codec.EntryID) error {
	s.forget()
	if s.t.fresh = checkpoint.IsZero(); s.t.fresh {
		return nil
	}
	return s.look(ctx)
}

func (s tableSink[S]) look(ctx context.Context) error { return s.load(ctx, nil) }

func (s tableSink[S]) forget() {
	s.t.cells, s.t.spare, s.t.dirty, s.t.made = map[string]*cell[S]{}, nil, nil, false
	s.t.batches, s.t.done = 0, 0
}

// committed keeps of too many cells those that the server does not have as they are.
func (s tableSink[S]) committed() {
	t := s.t
	t.done, t.fresh = t.done+1, false
	if len(t.cells) <= t.cfg.Cached {
		return
	}
	was := t.cells
	t.cells, t.spare = map[string]*cell[S]{}, nil
	for key, c := range was {
		if c.batch > t.done {
			*t.newCell(key) = *c
		}
	}
}

func (s tableSink[S]) fold(ctx context.Context, b *batch) (w writes, err error) {
	t := s.t
	t.of, t.batches = t.of[:0], t.batches+1
	var missing []*cell[S]
	for i := range b.deliveries {
		key, err := t.key(&b.deliveries[i])
		if err != nil {
			return w, &foldError{i, err}
		}
		c := t.cells[key]
		if c == nil && key != "" {
			c = t.newCell(strings.Clone(key)) // of the server's reply, which is large
			missing = append(missing, c)
		}
		if t.of = append(t.of, c); c != nil {
			c.batch = t.batches
		}
	}
	if !t.fresh { // a state that is not made yet cannot be lost
		if len(missing) > 0 {
			if err = s.load(ctx, missing); err != nil {
				return w, err
			}
		}
		w.expected = stream.Expected{State: t.State(), Field: schemaField, Value: strconv.Itoa(t.cfg.Schema)}
	}
	for i, c := range t.of {
		if c == nil {
			continue
		}
		if err := t.foldOne(c, &b.deliveries[i]); err != nil {
			return w, &foldError{i, err}
		}
		if !c.dirty {
			c.dirty = true
			t.dirty = append(t.dirty, c)
		}
	}
	if t.fresh && !t.made {
		t.made = true
		w.before = []tier.Output{tier.Delete(t.State()), tier.HashSet(t.State(), schemaField, strconv.Itoa(t.cfg.Schema))}
		if t.cfg.Rank != nil {
			w.before = append(w.before, tier.Delete(RankOf(t.State())))
		}
	}
	w.after = b.after[:0]
	var text strings.Builder
	for _, c := range t.dirty {
		if err := t.store(&w, c, &text); err != nil {
			return w, &foldError{t.lastOf(c), err}
		}
		c.dirty = false
	}
	t.dirty, b.after = t.dirty[:0], w.after
	return w, nil
}

func (t *Table[S]) newCell(key string) *cell[S] {
	if len(t.spare) == 0 {
		t.spare = make([]cell[S], spareCells)
	}
	c := &t.spare[0]
	c.key, t.spare = key, t.spare[1:]
	t.cells[key] = c
	return c
}

// lastOf is the message after which a state cannot be stored.
func (t *Table[S]) lastOf(c *cell[S]) int {
	for i := len(t.of) - 1; i > 0; i-- {
		if t.of[i] == c {
			return i
		}
	}
	return 0
}

// load reads the states of cells, and looks whether the state is there at all.
func (s tableSink[S]) load(ctx context.Context, cells []*cell[S]) error {
	t := s.t
	keys := make([]string, 0, len(cells)+1)
	for _, c := range cells {
		keys = append(keys, c.key)
	}
	fields, err := t.client.StateFields(ctx, t.cursor.Address().Scope, t.State(), append(keys, schemaField)...)
	if err != nil {
		return err
	}
	switch schema := fields[len(keys)]; {
	case !schema.OK:
		return &StateLostError{Stream: t.cursor.Address().String(), State: t.State()}
	case schema.Value != strconv.Itoa(t.cfg.Schema):
		return &SchemaError{State: t.State(), Have: schema.Value, Want: t.cfg.Schema}
	}
	for i, c := range cells {
		if fields[i].OK {
			if c.value, err = decode(t.cfg.Codec, fields[i].Value); err != nil {
				return fmt.Errorf("state %s, key %.64q: %w", t.State(), c.key, err)
			}
			c.there = true
		}
	}
	return nil
}

func decode[S any](c codec.Codec[S], text string) (S, error) {
	return c.Decode(&codec.Message{Data: []byte(text), Format: codec.FormatMsgpack})
}

func (t *Table[S]) key(d *consumer.Delivery) (key string, err error) {
	defer caught(&err)
	return t.cfg.Key(d), nil
}

func (t *Table[S]) foldOne(c *cell[S], d *consumer.Delivery) (err error) {
	defer caught(&err)
	value, err := t.cfg.Fold(c.value, d)
	if errors.Is(err, ErrRemove) {
		var zero S
		c.value, c.there = zero, false
		return nil
	}
	c.value, c.there = value, true
	return err
}

// caught makes a panic the error of its message.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &consumer.PanicError{Value: v, Stack: debug.Stack()}
	}
}

// store adds the outputs of a cell, whose text lies behind those of others.
func (t *Table[S]) store(w *writes, c *cell[S], text *strings.Builder) (err error) {
	defer caught(&err)
	state, key := t.State(), c.key
	if !c.there {
		w.after = append(w.after, tier.Remove(state, key))
		if t.cfg.Rank != nil {
			w.after = append(w.after, tier.Remove(RankOf(state), key))
		}
		return nil
	}
	m := &t.stored
	*m = codec.Message{}
	if err := t.cfg.Codec.Encode(m, c.value); err != nil {
		return err
	}
	at := text.Len()
	text.Write(m.Data)
	w.after = append(w.after, tier.HashSet(state, key, text.String()[at:]))
	if t.cfg.Rank == nil {
		return nil
	}
	score := t.cfg.Rank(c.value)
	if math.IsNaN(score) {
		return fmt.Errorf("projection: the rank of %.64q is no number", key)
	}
	w.after = append(w.after, tier.SortedAdd(RankOf(state), key, score))
	return nil
}

package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// open is a window that is not closed.
type open struct {
	Key     string  `json:"key"`
	Start   int64   `json:"start"`
	Tallies []tally `json:"values"`
}

// aggregate is a value of each window.
type aggregate struct {
	name, verb string
	of         *program
}

// windowing adds messages up. See docs/stages.md for the rule of the watermark.
type windowing struct {
	memory[open]
	cfg                  Window
	name, to             string
	time, key            *program
	aggregates           []aggregate
	lateness             int64
	loc                  *time.Location
	sessions             map[string][]*cell[open] // of a key, by start; only of session windows
	maxOpen, maxDistinct int
	late                 func() // counts

	values []any // of the message
	spans  []span
	id     []byte
}

func (w *windowing) setUp(c *compiler, cfg Window) {
	w.cfg, w.lateness, w.tie = cfg, time.Duration(cfg.Lateness).Milliseconds(), keyOf
	w.time, w.key = c.compile(cfg.Time, anyResult, "window", "time"), c.compile(cfg.Key, anyResult, "window", "key")
	for _, name := range slices.Sorted(maps.Keys(cfg.Values)) {
		a := cfg.Values[name]
		verbs, of := a.parts()
		w.aggregates = append(w.aggregates, aggregate{name, verbs[0], c.compile(of, anyResult, "window", "values", name, verbs[0])})
	}
	w.loc, _ = time.LoadLocation(cfg.Zone) // it was checked
	w.maxOpen, w.maxDistinct = or(cfg.MaxOpen, 10_000), or(cfg.MaxDistinct, 1000)
}

func or[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// watermark is the time up to which windows are closed.
func (w *windowing) watermark() int64 {
	if !w.clock.Any {
		return math.MinInt64
	}
	return w.clock.Max - w.lateness
}

func (w *windowing) forget() {
	w.memory.forget()
	w.sessions = nil
}

func (w *windowing) decide(e *env, d *consumer.Delivery) error {
	t, key, err := w.read(e, &d.Record)
	if err != nil {
		return err
	}
	w.index()
	watermark := max(w.watermark(), t-w.lateness)
	w.spans = w.cfg.spans(w.spans[:0], t, w.loc)
	added, made := 0, 0
	for _, s := range w.spans {
		merged := w.merged(key, s)
		if len(merged) == 0 && s.end <= watermark {
			continue
		}
		if added++; len(merged) == 0 {
			made++
		}
		if err := w.fit(merged); err != nil {
			return err
		}
	}
	if added == 0 {
		if w.late(); w.cfg.Late != "" {
			e.emit(w.cfg.Late, d.Message)
		}
		return nil
	}
	if len(w.cells)+made > w.maxOpen && made > 0 && w.first(watermark) == nil {
		return consumer.Permanent(fmt.Errorf("stage: %d windows are open, which is max_open: raise it, or lower lateness, and redrive this message", len(w.cells)))
	}
	for _, s := range w.spans {
		w.add(key, s, watermark)
	}
	w.tick(t)
	return w.close(e)
}

// fit tells whether the message is one distinct value too many for a window, or for that which several become with it.
func (w *windowing) fit(merged []*cell[open]) error {
	for i := range w.aggregates {
		a := &w.aggregates[i]
		var err error
		switch len(merged) {
		case 0:
		case 1:
			err = a.fits(&merged[0].value.Tallies[i], w.values[i], w.maxDistinct)
		default:
			err = a.unite(merged, i, w.values[i], w.maxDistinct)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read evaluates what the message has for the window.
func (w *windowing) read(e *env, r *codec.Record) (t int64, key string, err error) {
	t = int64(r.Addr.Ms)
	if w.time != nil {
		v, err := w.time.eval(e)
		if err == nil {
			if t, err = moment(v); err != nil {
				err = w.time.failed(e, err)
			}
		}
		if err != nil {
			return 0, "", err
		}
	}
	if key, err = w.key.textOr(e, r.Key, codec.MaxKey); err != nil {
		return 0, "", err
	}
	w.values = w.values[:0]
	for i := range w.aggregates {
		a := &w.aggregates[i]
		var v any
		if a.of != nil {
			if v, err = a.of.eval(e); err != nil {
				return 0, "", err
			}
			if v, err = a.accept(v); err != nil {
				return 0, "", a.of.failed(e, err)
			}
		}
		w.values = append(w.values, v)
	}
	return t, key, nil
}

// merged are the open windows that a span of a key goes into: one, or the sessions that it touches.
func (w *windowing) merged(key string, s span) []*cell[open] {
	if w.cfg.Session == 0 {
		if c := w.cells[string(w.idOf(key, s.start))]; c != nil {
			return []*cell[open]{c}
		}
		return nil
	}
	var touched []*cell[open]
	for _, c := range w.sessions[key] {
		if s.start < c.end && c.value.Start < s.end {
			touched = append(touched, c)
		}
	}
	return touched
}

func (w *windowing) idOf(key string, start int64) []byte {
	w.id = append(strconv.AppendInt(w.id[:0], start, 10), ' ')
	w.id = append(w.id, key...)
	return w.id
}

// keyOf is the key of an id. No two windows of a key end together.
func keyOf(id string) string {
	_, key, _ := strings.Cut(id, " ")
	return key
}

// add counts the message in a window, unless that is closed.
func (w *windowing) add(key string, s span, watermark int64) {
	merged := w.merged(key, s)
	var c *cell[open]
	switch {
	case len(merged) > 0:
		c = merged[0]
	case s.end <= watermark:
		return
	default:
		c = w.memory.add(string(w.idOf(key, s.start)), s.end, open{Key: strings.Clone(key), Start: s.start, Tallies: make([]tally, len(w.aggregates))})
		if w.cfg.Session != 0 {
			w.sessions[key] = append(w.sessions[key], c)
		}
	}
	for i := range w.aggregates {
		w.aggregates[i].add(&c.value.Tallies[i], w.values[i])
	}
	if w.cfg.Session != 0 {
		c.value.Start, c.end = min(c.value.Start, s.start), max(c.end, s.end)
		for _, other := range merged[min(1, len(merged)):] {
			w.join(c, other)
		}
	}
	w.changed(c)
}

// join makes two sessions one.
func (w *windowing) join(c, other *cell[open]) {
	c.value.Start, c.end = min(c.value.Start, other.value.Start), max(c.end, other.end)
	for i := range w.aggregates {
		w.aggregates[i].merge(&c.value.Tallies[i], &other.value.Tallies[i])
	}
	w.drop(other)
}

// index finds the sessions of each key, after the state was read.
func (w *windowing) index() {
	if w.sessions != nil {
		return
	}
	w.sessions = map[string][]*cell[open]{}
	if w.cfg.Session != 0 {
		for _, c := range w.cells {
			w.sessions[c.value.Key] = append(w.sessions[c.value.Key], c)
		}
	}
	for _, cells := range w.sessions {
		slices.SortFunc(cells, func(a, b *cell[open]) int { return int(a.value.Start - b.value.Start) })
	}
}

func (w *windowing) drop(c *cell[open]) {
	w.remove(c)
	if w.cfg.Session == 0 {
		return
	}
	rest := slices.DeleteFunc(w.sessions[c.value.Key], func(o *cell[open]) bool { return o == c })
	if w.sessions[c.value.Key] = rest; len(rest) == 0 {
		delete(w.sessions, c.value.Key)
	}
}

// close closes the windows that the watermark has passed, in the order of their ends.
func (w *windowing) close(e *env) error {
	for c := w.first(w.watermark()); c != nil; c = w.first(w.watermark()) {
		m, err := w.result(c)
		if err != nil {
			return err
		}
		e.emit(w.to, m)
		w.drop(c)
	}
	return nil
}

var contentJSON = codec.Headers{{Key: codec.HeaderContentType, Value: "application/json"}}

func (w *windowing) result(c *cell[open]) (codec.Message, error) {
	at := func(ms int64) string { return time.UnixMilli(ms).In(w.loc).Format(time.RFC3339Nano) }
	values := map[string]any{"key": c.value.Key, "start": at(c.value.Start), "end": at(c.end)}
	for i := range w.aggregates {
		values[w.aggregates[i].name] = w.aggregates[i].result(&c.value.Tallies[i])
	}
	data, err := json.Marshal(values)
	return codec.Message{Type: w.name, Key: c.value.Key, Headers: contentJSON, Data: data}, err
}

func (w *windowing) flush(e *env, until *int64) error {
	w.index()
	if until != nil {
		w.tick(*until + w.lateness)
		return w.close(e)
	}
	last := int64(math.MinInt64)
	for _, c := range w.cells {
		last = max(last, c.end)
	}
	if last != math.MinInt64 {
		w.tick(last + w.lateness)
	}
	return w.close(e)
}

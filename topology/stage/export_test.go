package stage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// Eval is what an expression comes to on a message.
func Eval(text Expr, r *codec.Record) (any, error) {
	p, problems := compile([]string{"map", "data"}, text, anyResult)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	e := newEnv()
	e.set(r)
	return p.eval(e)
}

// Windows is a window stage without a server: what it remembers goes through JSON when it is restarted.
type Windows struct {
	w *windowing
	p *process
}

// NewWindows makes one that has committed nothing.
func NewWindows(cfg Window) *Windows {
	if p := (&Config{From: "s/a", To: "s/b", Window: &cfg}).Check(); p != nil {
		panic(p)
	}
	w := &windowing{name: "w", to: "s/b", late: func() {}}
	w.setUp(&compiler{}, cfg)
	w.begin(codec.EntryID{})
	w.loaded = true
	return &Windows{w, &process{decider: w, env: newEnv(), outputs: []string{"s/b"}, metrics: newMetrics(nil, "w")}}
}

// Put handles a message, and commits.
func (x *Windows) Put(r codec.Record) (out []tier.Output, err error) {
	d := consumer.Delivery{Record: r}
	x.p.env.set(&d.Record)
	err = x.p.one(&d)
	if _, err := x.w.effects(); err != nil {
		panic(err)
	}
	x.w.committed()
	return append(out, x.p.env.out...), err
}

// Open is how many windows are.
func (x *Windows) Open() int { return len(x.w.cells) }

// Restart writes what is remembered, and reads it again.
func (x *Windows) Restart() {
	cells, clock := x.w.cells, x.w.clock
	x.w.forget()
	x.w.loaded, x.w.clock = true, clock
	for id, c := range cells {
		text, _ := json.Marshal(stored[open]{c.end, c.value})
		var s stored[open]
		if err := json.Unmarshal(text, &s); err != nil {
			panic(err)
		}
		x.w.put(id, s.End, s.Value).stored = true
	}
}

// Handle has a stage without a server handle a batch.
func Handle(cfg Config, batch []consumer.Delivery) error {
	d, err := (&compiler{}).decider(nil, "s", cfg, newMetrics(nil, "s"))
	if err != nil {
		return err
	}
	p := &process{decider: d, env: newEnv(), outputs: cfg.Outputs(), metrics: newMetrics(nil, "s")}
	_, err = p.Handle(context.Background(), batch)
	return err
}

// Effects has a stage without a server, which has committed nothing, handle batches: "one by one", each when the one before it is
// committed; "ahead", while that is not; "again" as "ahead", when two were handled and forgotten. It answers what is written with each.
func Effects(cfg Config, how string, batches [][]consumer.Delivery) (all [][]tier.Output, err error) {
	d, err := (&compiler{}).decider(nil, "s", cfg, newMetrics(nil, "s"))
	if err != nil {
		return nil, err
	}
	p := &process{decider: d, name: "s", env: newEnv(), outputs: cfg.Outputs(), metrics: newMetrics(nil, "s")}
	if err := p.Begin(context.Background(), codec.EntryID{}); err != nil {
		return nil, err
	}
	if how == "again" {
		for _, batch := range batches[:2] {
			if _, err := p.Handle(context.Background(), slices.Clone(batch)); err != nil {
				return nil, err
			}
		}
		p.Forget()
	}
	for i, batch := range batches {
		batch = slices.Clone(batch)
		e, err := p.Handle(context.Background(), batch)
		if err != nil {
			return nil, err
		}
		written := e.Before
		for k := range batch {
			written = append(written, batch[k].Outputs()...)
		}
		all = append(all, append(written, e.After...))
		if how == "one by one" || i > 0 {
			p.Committed()
		}
	}
	return all, nil
}

// Ask posts a message.
func Ask(ctx context.Context, cfg Webhook, d *consumer.Delivery) error {
	return (&compiler{}).newHook(cfg, "", nil).handle(ctx, d)
}

// RecordsOf are the data of what a reader has; behind "! " an error of a record, behind "!! " of the whole.
func RecordsOf(r io.Reader, format string) (all []string) {
	in, err := newRecords(r, format)
	if err != nil {
		return []string{"!! " + err.Error()}
	}
	for {
		m, err := in.next()
		switch record, is := errors.AsType[errRecord](err); {
		case err == nil:
			all = append(all, string(m.Data))
		case is:
			all = append(all, "! "+record.Error())
		case errors.Is(err, io.EOF):
			return all
		default:
			return append(all, "!! "+err.Error())
		}
	}
}

// DecodeJSON and EncodeJSON are how data is read and written.
var DecodeJSON, EncodeJSON = decodeJSON, encodeJSON

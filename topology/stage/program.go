package stage

import (
	"context"
	"fmt"
	"math"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// WatermarkType is that of messages which say how far the time of a stream is: their data is {"time": ...}, or empty, which
// means behind all that came before. Windows close by them, and every stage hands them on.
const WatermarkType = "emq.watermark"

// decider is what a stage does with a message: a function of the state, which is its own, and the message.
type decider interface {
	begin(checkpoint codec.EntryID)
	// prepare reads what is needed for a batch.
	prepare(ctx context.Context, e *env, batch []consumer.Delivery) error
	// decide adds outputs to e.out. With an error, it has changed nothing.
	decide(e *env, d *consumer.Delivery) error
	// flush decides on a watermark: nil is the end of what there is.
	flush(e *env, until *int64) error
	effects() (projection.Effects, error)
	committed()
	forget()
}

// stateless is what a decider without a state has.
type stateless struct{}

func (stateless) begin(codec.EntryID)                                      {}
func (stateless) prepare(context.Context, *env, []consumer.Delivery) error { return nil }
func (stateless) flush(*env, *int64) error                                 { return nil }
func (stateless) effects() (projection.Effects, error)                     { return projection.Effects{}, nil }
func (stateless) committed()                                               {}
func (stateless) forget()                                                  {}

// compiler compiles the expressions of a declaration that was checked.
type compiler struct{ problems Problems }

// compile is nil for an expression that is not given.
func (c *compiler) compile(text Expr, want result, path ...string) *program {
	if text == "" {
		return nil
	}
	p, problems := compile(path, text, want)
	c.problems = append(c.problems, problems...)
	return p
}

const anyLength = math.MaxInt

// textOr is what a program comes to as a text; without a program, another one. What a message cannot have is an error of this one, not of
// whichever message would bring it to the server.
func (p *program) textOr(e *env, other string, most int) (string, error) {
	if p == nil {
		return other, nil
	}
	v, err := p.eval(e)
	if err != nil {
		return "", err
	}
	s, err := text(v)
	if err == nil {
		err = atMost(s, most)
	}
	if err != nil {
		return "", p.failed(e, err)
	}
	return s, nil
}

func atMost(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("has %d bytes, want %d at most", len(s), most)
	}
	return nil
}

// filtering passes on.
type filtering struct {
	stateless
	when *program
	to   string
}

func (f *filtering) decide(e *env, d *consumer.Delivery) error {
	pass, err := f.when.truth(e)
	if pass {
		e.emit(f.to, d.Message)
	}
	return err
}

// routing passes on to one of several.
type routing struct {
	stateless
	when []*program
	to   []string
}

func (r *routing) decide(e *env, d *consumer.Delivery) error {
	for i, when := range r.when {
		pass, err := true, error(nil)
		if when != nil {
			pass, err = when.truth(e)
		}
		if err != nil {
			return err
		}
		if pass {
			e.emit(r.to[i], d.Message)
			return nil
		}
	}
	return nil
}

// mapping makes other messages.
type mapping struct {
	stateless
	data, key, kind *program
	headers         []namedProgram
	to              string
}

type namedProgram struct {
	name string
	*program
}

func (m *mapping) decide(e *env, d *consumer.Delivery) error {
	out, err := m.message(e, d.Message)
	if err == nil {
		e.emit(m.to, out)
	}
	return err
}

// message is what becomes of one.
func (m *mapping) message(e *env, in codec.Message) (out codec.Message, err error) {
	out = in
	if out.Key, err = m.key.textOr(e, in.Key, codec.MaxKey); err != nil {
		return out, err
	}
	if out.Type, err = m.kind.textOr(e, in.Type, codec.MaxType); err != nil {
		return out, err
	}
	if m.data != nil || len(m.headers) > 0 {
		out.Headers = append(codec.Headers(nil), in.Headers...)
	}
	for _, h := range m.headers {
		v, err := h.eval(e)
		if err != nil {
			return out, err
		}
		if v == nil {
			out.Headers = without(out.Headers, h.name)
			continue
		}
		value, err := text(v)
		if err == nil {
			err = atMost(value, codec.MaxHeaderValue)
		}
		if err != nil {
			return out, h.failed(e, err)
		}
		out.Headers.Set(h.name, value)
	}
	if m.data == nil {
		return out, nil
	}
	v, err := m.data.eval(e)
	if err == nil {
		err = setData(&out, v)
	}
	return out, err
}

func without(headers codec.Headers, name string) (kept codec.Headers) {
	for _, h := range headers {
		if h.Key != name {
			kept = append(kept, h)
		}
	}
	return kept
}

// emit adds a message to what comes of the one that is decided on.
func (e *env) emit(to string, m codec.Message) { e.out = append(e.out, tier.AppendTo(to, m)) }

package stage

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// joining adds what a state has under a key. It sees the state as it is when the batch of the message is handled.
type joining struct {
	stateless
	state     string
	look      func(ctx context.Context, keys ...string) ([]tier.Field, error)
	key, data *program
	missing   string
	to        string

	fields map[string]tier.Field
}

func (j *joining) prepare(ctx context.Context, e *env, batch []consumer.Delivery) error {
	j.fields = map[string]tier.Field{}
	var keys []string
	for i := range batch {
		e.set(&batch[i].Record)
		key, err := j.key.textOr(e, batch[i].Key, anyLength)
		if key == "" { // no key of a state is, but what says of which schema it is
			continue
		}
		if _, known := j.fields[key]; err == nil && !known { // an error is told when it is decided
			j.fields[key] = tier.Field{}
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	fields, err := j.look(ctx, keys...)
	for i := range fields {
		j.fields[keys[i]] = fields[i]
	}
	return err
}

func (j *joining) decide(e *env, d *consumer.Delivery) error {
	key, err := j.key.textOr(e, d.Key, anyLength)
	if err != nil {
		return err
	}
	field := j.fields[key]
	var joined any
	switch {
	case field.OK:
		m := codec.Message{Data: []byte(field.Value)}
		if !json.Valid(m.Data) {
			m.Format = codec.FormatMsgpack
		}
		if joined, err = decodeData(&m); err != nil {
			return consumer.Permanent(fmt.Errorf("stage: state %s, field %.64q: %w", j.state, key, err))
		}
	case j.missing == "drop":
		return nil
	case j.missing == "dead":
		return consumer.Permanent(fmt.Errorf("stage: the state %s has no field %.64q", j.state, key))
	}
	if err := e.decode(); err != nil {
		return consumer.Permanent(err)
	}
	e.vars["joined"] = joined
	out := d.Message
	out.Headers = append(codec.Headers(nil), d.Headers...)
	var v any = map[string]any{"data": e.data(), "joined": joined}
	if j.data != nil {
		if v, err = j.data.eval(e); err != nil {
			return err
		}
	}
	if err := setData(&out, v); err != nil {
		return err
	}
	e.emit(j.to, out)
	return nil
}

package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology/stage"
)

// maxTried bounds what a case may come to, so that a circle that grows ends.
const maxTried = 100_000

// trial is a case that runs.
type trial struct {
	doc     *Document
	streams map[string][]codec.Record
	given   map[string]int // how many of a stream were
	read    map[string]int // by stage
	tried   int

	dead        map[string][]string
	jobs, posts map[string][]map[string]any
}

// Try runs the stages of the document on what a case gives, without a server, until all is through, and compares. Each message is
// tried once; streams that several stages append to have what came in rounds, in the order of the stages' names.
//
// Options have the Go functions of stages. The error is that of a stage that cannot be made, or of a circle that does not end.
func (d *Document) Try(ctx context.Context, c Case, opts stage.Options) ([]Mismatch, error) {
	t := &trial{
		doc: d, streams: map[string][]codec.Record{}, given: map[string]int{}, read: map[string]int{},
		dead: map[string][]string{}, jobs: map[string][]map[string]any{}, posts: map[string][]map[string]any{},
	}
	for _, name := range sorted(c.Given) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if first := c.Given[name]; len(first) > 0 && !first[0].Time.IsZero() {
			at = first[0].Time
		}
		for i, s := range c.Given[name] {
			if !s.Time.IsZero() {
				at = s.Time
			}
			m, err := s.message()
			if err != nil {
				return nil, fmt.Errorf("topology: message %d of %s: %w", i, name, err)
			}
			if err := t.append(name, at, m); err != nil {
				return nil, err
			}
		}
		t.given[name] = len(t.streams[name])
	}
	stages := map[string]*stage.Trial{}
	for _, name := range sorted(d.Stages) {
		cfg := d.Stages[name]
		one, err := stage.NewTrial(name, cfg, c.trialOptions(name, &cfg, opts))
		if err != nil {
			return nil, fmt.Errorf("topology: stage %s: %w", name, err)
		}
		defer one.Close()
		stages[name] = one
	}
	for moved := true; moved; {
		moved = false
		for _, name := range sorted(d.Stages) {
			for from := d.Stages[name].From; t.read[name] < len(t.streams[from]); moved = true {
				r := t.streams[from][t.read[name]]
				t.read[name]++
				if err := t.take(name, r, stages[name].Try(ctx, r)); err != nil {
					return nil, err
				}
				if err := ctx.Err(); err != nil {
					return nil, context.Cause(ctx)
				}
			}
		}
	}
	return t.compare(&c), nil
}

func (s *Sample) message() (m codec.Message, err error) {
	if s.Key != nil {
		m.Key = *s.Key
	}
	if s.Type != nil {
		m.Type = *s.Type
	}
	for _, name := range sorted(s.Headers) {
		m.Headers.Set(name, s.Headers[name])
	}
	if s.Data != nil {
		err = stage.SetValue(&m, s.Data)
		for _, name := range sorted(s.Headers) { // what is written counts
			m.Headers.Set(name, s.Headers[name])
		}
	}
	return m, err
}

// append appends a message at a time, or at that of the one before, which is later.
func (t *trial) append(address string, at time.Time, m codec.Message) error {
	if t.tried++; t.tried > maxTried {
		return fmt.Errorf("topology: more than %d messages came: is there a circle that does not end, or too much given?", maxTried)
	}
	addr := codec.EntryID{Ms: uint64(max(at.UnixMilli(), 0))}
	if have := t.streams[address]; len(have) > 0 {
		if last := have[len(have)-1].Addr; addr.Ms <= last.Ms {
			addr = codec.EntryID{Ms: last.Ms + (last.Seq+1)>>12, Seq: (last.Seq + 1) & (1<<12 - 1)} // an id has 12 bits of it
		}
	}
	brand, err := codec.ParseBrand(brandOf(address, t.doc))
	if err != nil {
		return fmt.Errorf("topology: %s: %w", address, err)
	}
	id, err := codec.NewIDAt(brand, int64(addr.Ms), 0, int(addr.Seq))
	if err != nil {
		return fmt.Errorf("topology: %s, message %d: %w", address, len(t.streams[address]), err)
	}
	t.streams[address] = append(t.streams[address], codec.Record{ID: id, Addr: addr, Message: m})
	return nil
}

// take takes what a stage made of a message.
func (t *trial) take(name string, from codec.Record, got stage.Tried) error {
	if got.Err != nil {
		t.dead[name] = append(t.dead[name], got.Err.Error())
		return nil
	}
	for _, o := range got.Outputs {
		if o.Kind != tier.OutputAppend {
			continue // a state, which a Go function writes
		}
		if err := t.append(o.Target, from.Addr.Time(), o.Message); err != nil {
			return err
		}
	}
	for _, job := range got.Jobs {
		fields := shown(&job.Message)
		fields["lane"] = job.Lane
		queue := t.doc.Stages[name].Job.Queue
		t.jobs[queue] = append(t.jobs[queue], fields)
	}
	for _, body := range got.Posts {
		fields := map[string]any{"data": string(body)}
		var v any
		if json.Unmarshal(body, &v) == nil {
			fields["data"] = v
		}
		t.posts[name] = append(t.posts[name], fields)
	}
	return nil
}

// shown are the fields of a message that may be expected.
func shown(m *codec.Message) map[string]any {
	headers := map[string]any{}
	for _, h := range m.Headers {
		headers[h.Key] = h.Value
	}
	data, err := stage.Value(m)
	if err != nil {
		data = string(m.Data)
	}
	return map[string]any{"key": m.Key, "type": m.Type, "headers": headers, "data": data}
}

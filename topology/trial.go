package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology/stage"
)

// Mismatch is where what came differs from what a case expects: the lines of both, in their order. A line is JSON; of what came it
// has the fields that the line in its place expects.
type Mismatch struct {
	Where string `json:"where"` // stream NAME, dead letters of STAGE, jobs of QUEUE, posts of STAGE
	Lines []Line `json:"lines"`
}

// Line is one of a mismatch: in both, missing, or too much.
type Line struct {
	Sign string `json:"sign"` // " ", "-": expected, and did not come; "+": came, and was not expected
	Text string `json:"text"`
}

// maxTried bounds what a case may come to, so that a circle that grows ends.
const maxTried = 100_000

// maxExtra is how much more than expected is shown.
const maxExtra = 100

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

func itoa(n int) string { return strconv.Itoa(n) }

// compare compares with all that a case names, and with no dead letters where it names none.
func (t *trial) compare(c *Case) (found []Mismatch) {
	add := func(where string, want, got []map[string]any) {
		if lines, same := aligned(want, got); !same {
			found = append(found, Mismatch{where, lines})
		}
	}
	for _, name := range sorted(c.Expect) {
		var want, got []map[string]any
		for _, s := range c.Expect[name] {
			want = append(want, s.fields())
		}
		for _, r := range t.streams[name][min(t.given[name], len(t.streams[name])):] {
			fields := shown(&r.Message)
			fields["time"] = r.Addr.Time().UTC().Format(time.RFC3339Nano)
			got = append(got, fields)
		}
		add("stream "+name, want, got)
	}
	for _, name := range sorted(t.doc.Stages) {
		var want, got []map[string]any
		for _, reason := range c.Dead[name] {
			want = append(want, map[string]any{"reason": reason})
		}
		for _, reason := range t.dead[name] {
			got = append(got, map[string]any{"reason": reason})
		}
		add("dead letters of "+name, want, got)
	}
	for _, name := range sorted(c.Jobs) {
		var want []map[string]any
		for _, j := range c.Jobs[name] {
			s := Sample{Key: j.Key, Type: j.Type, Data: j.Data}
			fields := s.fields()
			if j.Lane != nil {
				fields["lane"] = *j.Lane
			}
			want = append(want, fields)
		}
		add("jobs of "+name, want, t.jobs[name])
	}
	for _, name := range sorted(c.Posts) {
		var want []map[string]any
		for _, v := range c.Posts[name] {
			want = append(want, map[string]any{"data": v})
		}
		add("posts of "+name, want, t.posts[name])
	}
	return found
}

// fields are what is written of a message.
func (s *Sample) fields() map[string]any {
	f := map[string]any{}
	if s.Key != nil {
		f["key"] = *s.Key
	}
	if s.Type != nil {
		f["type"] = *s.Type
	}
	if !s.Time.IsZero() {
		f["time"] = s.Time.UTC().Format(time.RFC3339Nano)
	}
	if s.Headers != nil {
		f["headers"] = s.Headers
	}
	if s.Data != nil {
		f["data"] = s.Data
	}
	return f
}

// of is what came, as far as something is expected of it; of headers those that are.
func of(got, want map[string]any) map[string]any {
	part := map[string]any{}
	for name, v := range got {
		w, asked := want[name]
		if !asked {
			continue
		}
		have, isMap := v.(map[string]any)
		if few, ok := w.(map[string]string); ok && isMap && name == "headers" {
			some := map[string]any{}
			for h := range few {
				if value, there := have[h]; there {
					some[h] = value
				}
			}
			v = some
		}
		part[name] = v
	}
	return part
}

// line is the one form of fields that compares: numbers that are equal are written alike.
func line(fields map[string]any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(fields); err != nil {
		return fmt.Sprint(fields)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// matches tells whether what came is what is expected; of a reason, a part of it.
func matches(want, got map[string]any) bool {
	if reason, ok := want["reason"].(string); ok {
		return strings.Contains(fmt.Sprint(got["reason"]), reason)
	}
	return line(want) == line(of(got, want))
}

// aligned lays what is expected beside what came: the longest common part of the two is in both.
func aligned(want, got []map[string]any) (lines []Line, same bool) {
	if most := len(want) + maxExtra; len(got) > most {
		defer func(n int) { lines = append(lines, Line{"+", fmt.Sprintf("... and %d more", n)}) }(len(got) - most)
		got = got[:most]
	}
	common := make([][]int, len(want)+1) // of what is left of both, from there on
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if matches(want[i], got[j]) {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	like := map[string]any{"key": true, "data": true, "reason": true} // of what nothing stands beside
	if len(want) > 0 {
		like = want[0]
	}
	same, i, j := true, 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && matches(want[i], got[j]):
			lines = append(lines, Line{" ", line(want[i])})
			i, j = i+1, j+1
		case i < len(want) && (j == len(got) || common[i+1][j] >= common[i][j+1]):
			lines, same = append(lines, Line{"-", line(want[i])}), false
			like = want[i]
			i++
		default:
			lines, same = append(lines, Line{"+", line(of(got[j], like))}), false
			j++
		}
	}
	return lines, same
}

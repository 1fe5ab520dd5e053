package topology

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
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

// maxExtra is how much more than expected is shown.
const maxExtra = 100

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

// maxCells bounds what is laid beside each other: of more, all that was expected stands before all that came.
const maxCells = 250_000

// aligned lays what is expected beside what came: the longest common part of the two is in both.
func aligned(want, got []map[string]any) (lines []Line, same bool) {
	if most := len(want) + maxExtra; len(got) > most {
		defer func(n int) { lines = append(lines, Line{"+", fmt.Sprintf("... and %d more", n)}) }(len(got) - most)
		got = got[:most]
	}
	first := 0
	for first < min(len(want), len(got)) && matches(want[first], got[first]) {
		first++
	}
	last := 0
	for last < min(len(want), len(got))-first && matches(want[len(want)-1-last], got[len(got)-1-last]) {
		last++
	}
	for _, w := range want[:first] {
		lines = append(lines, Line{" ", line(w)})
	}
	lines = append(lines, between(want[first:len(want)-last], got[first:len(got)-last])...)
	for _, w := range want[len(want)-last:] {
		lines = append(lines, Line{" ", line(w)})
	}
	return lines, len(want) == len(got) && first+last == len(want)
}

// between lays beside each other what does not begin or end alike.
func between(want, got []map[string]any) (lines []Line) {
	if len(want)*len(got) > maxCells {
		return append(between(want, nil), between(nil, got)...)
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
	for i, j := 0, 0; i < len(want) || j < len(got); {
		switch {
		case i < len(want) && j < len(got) && matches(want[i], got[j]):
			lines = append(lines, Line{" ", line(want[i])})
			i, j = i+1, j+1
		case i < len(want) && (j == len(got) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, Line{"-", line(want[i])})
			like = want[i]
			i++
		default:
			lines = append(lines, Line{"+", line(of(got[j], like))})
			j++
		}
	}
	return lines
}

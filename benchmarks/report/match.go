package report

import (
	"fmt"
	"slices"
	"strings"
)

// Turn is what one contestant of a match did in one round: a line of a results file.
type Turn struct {
	Set   string `json:"set"` // of matches
	Match string `json:"match"`
	Who   string `json:"who"`
	On    string `json:"on"` // the server, and what it keeps
	Round int    `json:"round"`
	Count int    `json:"count"`

	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Lower bool    `json:"lower_is_better,omitempty"`
	// Goal is of the first contestant against the second, or of its value alone; 0: there is none.
	Goal  float64 `json:"goal,omitempty"`
	Alone bool    `json:"goal_of_value,omitempty"`

	Server float64 `json:"server_us_per_message"`           // CPU time of all servers
	Client float64 `json:"client_us_per_message"`           // CPU time of the process
	P99    float64 `json:"p99_ms,omitempty"`                // of latencies
	Late   float64 `json:"generator_late_p50_ms,omitempty"` // how late messages were sent, which counts
}

// Match is what contestants did by turns, the first against the others.
type Match struct {
	Turn        // its name, unit and goal
	Contestants []Contestant
}

// Contestant has a turn in each round.
type Contestant struct {
	Name, On string
	Turns    []Turn
}

// Matches are those of turns, in the order in which they began.
func Matches(turns []Turn) []Match {
	var list []Match
	for _, t := range turns {
		m := slices.IndexFunc(list, func(m Match) bool { return m.Set == t.Set && m.Match == t.Match })
		if m < 0 {
			m = len(list)
			list = append(list, Match{Turn: t})
		}
		all := &list[m].Contestants
		c := slices.IndexFunc(*all, func(c Contestant) bool { return c.Name == t.Who })
		if c < 0 {
			c = len(*all)
			*all = append(*all, Contestant{Name: t.Who, On: t.On})
		}
		(*all)[c].Turns = append((*all)[c].Turns, t)
	}
	return list
}

// Spread is the median of rounds, the least and the most.
type Spread struct{ Median, Min, Max float64 }

func spreadOf(values []float64) Spread {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	return Spread{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

func spread[T any](list []T, of func(T) float64) Spread {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = of(list[i])
	}
	return spreadOf(values)
}

func (s Spread) String() string {
	if s.Min == s.Max {
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", figure(s.Median), figure(s.Min), figure(s.Max))
}

// figure has three digits that count, and commas.
func figure(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.1:
		return fmt.Sprintf("%.3f", f)
	case f < 10:
		return fmt.Sprintf("%.2f", f)
	case f < 100:
		return fmt.Sprintf("%.1f", f)
	}
	return commas(fmt.Sprintf("%.0f", f))
}

// commas puts them into a whole number.
func commas(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Value is in the unit of the match.
func (c *Contestant) Value() Spread {
	return spread(c.Turns, func(t Turn) float64 { return t.Value })
}

// Ratio is how many times the first contestant's value is that of the k-th, in the same round.
func (m *Match) Ratio(k int) Spread {
	return ratios(m.Contestants[0].Turns, m.Contestants[k].Turns)
}

func ratios(first, other []Turn) Spread {
	list := make([]float64, min(len(first), len(other)))
	for i := range list {
		list[i] = first[i].Value / other[i].Value
	}
	return spreadOf(list)
}

// Behind says whether the first contestant is behind the k-th.
func (m *Match) Behind(k int) bool { return k > 0 && m.Lower == (m.Ratio(k).Median > 1) }

// goalOf is the goal, and what came of it.
func (m *Match) goalOf() goal {
	g := goal{Want: m.Goal, Most: m.Lower, Got: m.Contestants[0].Value()}
	if !m.Alone {
		g.Got = m.Ratio(1)
	}
	return g
}

// Table is of matches of one set, in Markdown.
func Table(matches []Match) string {
	var b strings.Builder
	b.WriteString("| | who | | server us | client us | the first, times this one | goal |\n|---|---|---|---|---|---|---|\n")
	for i := range matches {
		m := &matches[i]
		for k := range m.Contestants {
			c := &m.Contestants[k]
			name, ratio, goal := "", "", ""
			if k == 0 {
				name = m.Match
			} else {
				ratio = m.Ratio(k).String()
			}
			if m.Goal > 0 && (k == 0) == m.Alone && k < 2 {
				goal = m.goalOf().Verdict()
			}
			value := fmt.Sprintf("%s %s", c.Value(), m.Unit)
			if p99 := spread(c.Turns, func(t Turn) float64 { return t.P99 }); p99.Median > 0 {
				value += fmt.Sprintf("; 99th percentile %s", p99)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, c.Name, value,
				figure(spread(c.Turns, func(t Turn) float64 { return t.Server }).Median), figure(spread(c.Turns, func(t Turn) float64 { return t.Client }).Median), ratio, goal)
		}
	}
	return b.String()
}

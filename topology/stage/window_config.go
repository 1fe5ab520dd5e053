package stage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/echomq/pipeline/internal/duration"
)

// Window adds messages up by key and time. Exactly one of Tumbling, Hopping, Session and Calendar is given. A window's result is
// appended to To once the watermark has passed its end: its key is the window's, its data {"key", "start", "end", and the
// names of Values}; see docs/stages.md.
type Window struct {
	// Tumbling is the length of windows that follow each other, counted from 1970-01-01T00:00Z.
	Tumbling Duration `yaml:"tumbling,omitempty"`
	// Hopping windows overlap.
	Hopping *Hopping `yaml:"hopping,omitempty"`
	// Session is the gap that ends a session: a window lasts from its first message to that much after its last one.
	Session Duration `yaml:"session,omitempty"`
	// Calendar is day, week (from Monday), month or year of Zone: a day of 23 or 25 hours is one day.
	Calendar string `yaml:"calendar,omitempty"`
	// Zone is a name as Europe/Berlin. Default UTC. Only for Calendar.
	Zone string `yaml:"zone,omitempty"`

	// Time is when a message happened: a time, a text as in RFC 3339, or Unix milliseconds. Default: when it was appended.
	Time Expr `yaml:"time,omitempty"`
	// Key is what is added up together: a text or a number. Default: the message's key.
	Key Expr `yaml:"key,omitempty"`
	// Lateness is how far behind the latest message another may be and count still. Default 0.
	Lateness Duration `yaml:"lateness,omitempty"`
	// Late is the stream of the same scope that takes what comes later. Default: it is counted by the metrics, and dropped.
	Late string `yaml:"late,omitempty"`
	// Values are what a result holds, by name.
	Values map[string]Aggregate `yaml:"values"`
	// MaxOpen is how many windows are open at most. A message that would open one more goes to the dead letters, from where
	// it can be redriven. Default 10000, at most 100000.
	MaxOpen int `yaml:"max_open,omitempty"`
	// MaxDistinct is how many values a distinct tells apart in a window. One more goes to the dead letters. Default 1000, at
	// most 10000.
	MaxDistinct int `yaml:"max_distinct,omitempty"`
}

// Hopping windows last Size; one begins each Every.
type Hopping struct {
	Size  Duration `yaml:"size"`
	Every Duration `yaml:"every"`
}

// Aggregate is one value of a window: exactly one of these. In YAML count is a text, the others have an expression:
// {max: data.mag}.
type Aggregate struct {
	Count bool `yaml:"count,omitempty"`
	// Sum and Mean are of numbers: sums of integers are exact, those of others are compensated, so that they do not depend on
	// the order in which messages came as long as a float can tell.
	Sum  Expr `yaml:"sum,omitempty"`
	Mean Expr `yaml:"mean,omitempty"`
	// Min and Max are of numbers.
	Min Expr `yaml:"min,omitempty"`
	Max Expr `yaml:"max,omitempty"`
	// Distinct is how many different values there are: texts, numbers or truths.
	Distinct Expr `yaml:"distinct,omitempty"`
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Aggregate) UnmarshalText(text []byte) error {
	if string(text) != "count" {
		return Problem{Text: "want count, or {sum: EXPRESSION}, and so with mean, min, max, distinct"}
	}
	a.Count = true
	return nil
}

// parts are the verb and the expression of an aggregate; more than one: it is wrong.
func (a *Aggregate) parts() (verbs []string, of Expr) {
	if a.Count {
		verbs = append(verbs, "count")
	}
	for _, p := range []struct {
		verb string
		of   Expr
	}{{"sum", a.Sum}, {"mean", a.Mean}, {"min", a.Min}, {"max", a.Max}, {"distinct", a.Distinct}} {
		if p.of != "" {
			verbs, of = append(verbs, p.verb), p.of
		}
	}
	return verbs, of
}

// calendars are the units of Calendar.
var calendars = []string{"day", "week", "month", "year"}

const (
	maxHops = 64 // windows that a message counts in
	maxSize = Duration(366 * duration.Day)
)

func (w *Window) check(f finder) {
	var kinds []string
	for _, k := range []struct {
		name  string
		given bool
	}{{"tumbling", w.Tumbling != 0}, {"hopping", w.Hopping != nil}, {"session", w.Session != 0}, {"calendar", w.Calendar != ""}} {
		if k.given {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) != 1 {
		f.say("kinds of windows %v: want exactly one of tumbling, hopping, session, calendar", kinds)
	}
	within(f.in("tumbling"), w.Tumbling, Duration(time.Millisecond), maxSize)
	within(f.in("session"), w.Session, Duration(time.Millisecond), maxSize)
	within(f.in("lateness"), w.Lateness, 0, maxSize)
	within(f.in("max_open"), w.MaxOpen, 1, 100_000)
	within(f.in("max_distinct"), w.MaxDistinct, 1, 10_000)
	if h := w.Hopping; h != nil {
		f := f.in("hopping")
		switch {
		case h.Size < Duration(time.Millisecond) || h.Size > maxSize:
			f.in("size").say("%v: want 1ms to %v", h.Size, maxSize)
		case h.Every < Duration(time.Millisecond) || h.Every > h.Size:
			f.in("every").say("%v: want 1ms to the size, %v", h.Every, h.Size)
		case h.Size > maxHops*h.Every:
			f.in("every").say("%v: each message would count in more than %d windows; want %v or more", h.Every, maxHops, (h.Size+maxHops-1)/maxHops)
		}
	}
	if w.Calendar != "" && !slices.Contains(calendars, w.Calendar) {
		f.in("calendar").say("%.32q: want one of %s", w.Calendar, strings.Join(calendars, ", "))
	}
	if w.Zone != "" {
		if w.Calendar == "" {
			f.in("zone").say("only calendar windows have a zone")
		}
		if _, err := time.LoadLocation(w.Zone); err != nil || w.Zone == "Local" {
			f.in("zone").say("%.64q is not known: want a name as Europe/Berlin, or UTC", w.Zone)
		}
	}
	f.expr("time", w.Time, anyResult)
	f.expr("key", w.Key, anyResult)
	if len(w.Values) == 0 {
		f.in("values").say("missing: what a result holds, as {n: count, top: {max: data.size}}")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Values)) {
		f := f.in("values", name)
		a := w.Values[name]
		verbs, of := a.parts()
		if name == "key" || name == "start" || name == "end" || name == "" {
			f.say("a result has key, start and end of its own: choose another name")
		}
		if len(verbs) != 1 {
			f.say("has %v: want exactly one of count, sum, mean, min, max, distinct", verbs)
			continue
		}
		f.expr(verbs[0], of, anyResult)
	}
}

package stage

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
)

// checkVerb finds what is wrong with the verb's own part.
func (c *Config) checkVerb(f finder, from tier.Address, known bool) {
	if c.Map != nil {
		c.Map.check(f.in("map"))
	}
	if d := c.Dedupe; d != nil {
		f := f.in("dedupe")
		f.needed("key", d.Key, anyResult, "what tells that a message was seen")
		needs(f.in("within"), d.Within, Duration(time.Millisecond), maxSize)
		within(f.in("max_keys"), d.MaxKeys, 1, 1_000_000)
	}
	if t := c.Throttle; t != nil {
		f := f.in("throttle")
		needs(f.in("count"), t.Count, 1, 1_000_000)
		needs(f.in("per"), t.Per, Duration(time.Millisecond), maxSize)
		f.expr("key", t.Key, anyResult)
		within(f.in("max_keys"), t.MaxKeys, 1, 1_000_000)
		if t.Over != "" {
			f.target("over", t.Over, from, known)
		}
	}
	if b := c.Batch; b != nil {
		f := f.in("batch")
		needs(f.in("size"), b.Size, 2, 1000)
		within(f.in("within"), b.Within, Duration(time.Millisecond), maxSize)
		f.expr("key", b.Key, anyResult)
		within(f.in("max_open"), b.MaxOpen, 1, 10_000)
	}
	if w := c.Window; w != nil {
		w.check(f.in("window"))
		if w.Late != "" {
			f.in("window").target("late", w.Late, from, known)
		}
	}
	if j := c.Join; j != nil {
		f := f.in("join")
		f.name("state", j.State)
		f.expr("key", j.Key, anyResult)
		f.expr("data", j.Data, anyResult)
		f.oneOf("missing", j.Missing, "pass", "drop", "dead")
	}
	if d := c.Decide; d != nil {
		d.check(f.in("decide"))
	}
	if e := c.Exec; e != nil {
		e.check(f.in("exec"))
	}
	if w := c.Webhook; w != nil {
		w.check(f.in("webhook"))
	}
	if j := c.Job; j != nil {
		f := f.in("job")
		f.name("queue", j.Queue)
		f.expr("lane", j.Lane, anyResult)
		f.expr("type", j.Type, anyResult)
		f.expr("data", j.Data, anyResult)
		within(f.in("delay"), j.Delay, Duration(time.Millisecond), maxSize)
		within(f.in("unique"), j.Unique, Duration(time.Second), maxSize)
	}
}

// needs asks for a number that has no default.
func needs[T int | Duration](f finder, v, least, most T) {
	if v == 0 {
		f.say("missing: want %v to %v", least, most)
	}
	within(f, v, least, most)
}

func (f finder) name(field, name string) {
	if name == "" {
		f.in(field).say("missing: a name")
	} else if err := tier.CheckName(field, name); err != nil {
		f.in(field).say("%v", err)
	}
}

func (f finder) oneOf(field, value string, of ...string) {
	if value != "" && !slices.Contains(of, value) {
		f.in(field).say("%.32q: want one of %s", value, strings.Join(of, ", "))
	}
}

func (m *Map) check(f finder) {
	if m.Data == "" && m.Key == "" && m.Type == "" && len(m.Headers) == 0 {
		f.say("nothing to change: want data, key, type or headers")
	}
	f.expr("data", m.Data, anyResult)
	f.expr("key", m.Key, anyResult)
	f.expr("type", m.Type, anyResult)
	f.headers(m.Headers)
}

func (f finder) headers(headers map[string]Expr) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		f.in("headers").expr(name, headers[name], anyResult)
	}
}

func (d *Decide) check(f finder) {
	f.expr("key", d.Key, anyResult)
	f.expr("refuse", d.Refuse, anyResult)
	if len(d.Events) == 0 {
		f.in("events").say("missing: what may happen, as - {type: \"'order.placed'\"}")
	}
	for i, e := range d.Events {
		f := f.in("events", strconv.Itoa(i))
		f.expr("when", e.When, boolResult)
		f.needed("type", e.Type, anyResult, "a text that names what has happened, as \"'order.placed'\"")
		f.expr("data", e.Data, anyResult)
	}
	f.needed("state", d.State, anyResult, "what a key is after an event")
	if p, _ := compile(nil, d.State, anyResult); p != nil && p.sees&(varID|varTime) != 0 {
		f.in("state").say("an event has no id and no time when it is decided on: put what the state needs into its data")
	}
}

func (e *Exec) check(f finder) {
	if len(e.Command) == 0 || e.Command[0] == "" {
		f.in("command").say("missing: the program and its arguments, as [python3, score.py]")
	}
	for name := range e.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			f.in("env").say("%.32q is no name of a variable", name)
		}
	}
	within(f.in("timeout"), e.Timeout, Duration(time.Millisecond), Duration(time.Hour))
	within(f.in("in_flight"), e.InFlight, 1, 1024)
	within(f.in("max_line"), e.MaxLine, 1024, 16<<20)
}

func (w *Webhook) check(f finder) {
	u, err := url.Parse(w.URL)
	if w.URL == "" {
		f.in("url").say("missing: where messages are posted to, as https://example.org/hook")
	} else if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		f.in("url").say("want a URL as https://example.org/hook")
	} else if u.User != nil {
		f.in("url").say("has a password in it, which logs would show: use headers")
	}
	f.expr("body", w.Body, anyResult)
	within(f.in("timeout"), w.Timeout, Duration(time.Millisecond), Duration(10*time.Minute))
	within(f.in("in_flight"), w.InFlight, 1, 256)
	within(f.in("max_answer"), w.MaxAnswer, 1, 1<<20)
}

// formats of files; standard input and what is written have the first ones only.
var formats = []string{"lines", "jsonl", "csv", "parquet"}

// Check finds what is wrong with the declaration.
func (c *SourceConfig) Check() Problems {
	var found Problems
	f := finder{found: &found}
	f.address("to", c.To)
	f.one(map[string]bool{"file": c.File != nil, "stdin": c.Stdin != nil, "http": c.HTTP != nil, "watermill": c.Watermill != nil})
	if c.File != nil {
		c.File.check(f.in("file"), formats)
	}
	if c.Stdin != nil {
		f.in("stdin").oneOf("format", c.Stdin.Format, formats[:3]...)
	}
	if c.HTTP != nil {
		c.HTTP.check(f.in("http"))
	}
	if c.Watermill != nil {
		c.Watermill.check(f.in("watermill"))
	}
	f.expr("data", c.Data, anyResult)
	f.expr("key", c.Key, anyResult)
	f.expr("type", c.Type, anyResult)
	f.headers(c.Headers)
	return found
}

// Check finds what is wrong with the declaration.
func (c *SinkConfig) Check() Problems {
	var found Problems
	f := finder{found: &found}
	f.address("from", c.From)
	f.one(map[string]bool{"file": c.File != nil, "stdout": c.Stdout != nil, "webhook": c.Webhook != nil, "watermill": c.Watermill != nil})
	if c.File != nil {
		c.File.check(f.in("file"), formats[:2])
		if c.File.Watermark {
			f.in("file", "watermark").say("only a source has one")
		}
	}
	if c.Stdout != nil {
		f.in("stdout").oneOf("format", c.Stdout.Format, formats[:2]...)
	}
	if c.Webhook != nil {
		c.Webhook.check(f.in("webhook"))
	}
	if c.Watermill != nil {
		c.Watermill.check(f.in("watermill"))
	}
	within(f.in("lease"), c.Lease, Duration(time.Second), Duration(time.Hour))
	return found
}

// one asks for exactly one of several fields.
func (f finder) one(given map[string]bool) {
	names := slices.Sorted(maps.Keys(given))
	var have []string
	for _, name := range names {
		if given[name] {
			have = append(have, name)
		}
	}
	if len(have) != 1 {
		f.say("has %v: want exactly one of %v", have, names)
	}
}

// format is that of a file, given or by its name's ending; empty: neither.
func (c *File) format() string {
	if c.Format != "" {
		return c.Format
	}
	for ending, format := range map[string]string{".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".log": "lines", ".txt": "lines"} {
		if strings.HasSuffix(c.Path, ending) {
			return format
		}
	}
	return ""
}

func (c *File) check(f finder, of []string) {
	if c.Path == "" {
		f.in("path").say("missing: a file")
	}
	f.oneOf("format", c.Format, of...)
	if format := c.format(); c.Path != "" && (format == "" || c.Format == "" && !slices.Contains(of, format)) {
		f.in("format").say("%.64q does not tell it: want one of %s", c.Path, strings.Join(of, ", "))
	}
}

// pathLetters are those of a path that mean nothing to a server's patterns.
var pathLetters = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

func isPath(p string) bool {
	clean := path.Clean(p)
	return pathLetters.MatchString(p) && (p == clean || p == clean+"/" && clean != "/")
}

func (c *HTTP) check(f finder) {
	host, port, err := net.SplitHostPort(c.Listen)
	addr, ipErr := netip.ParseAddr(host)
	if _, portErr := strconv.ParseUint(port, 10, 16); err == nil {
		err = portErr
	}
	switch {
	case c.Listen == "" || err != nil:
		f.in("listen").say("want host:port, as 127.0.0.1:8080")
	case !c.Public && host != "localhost" && (ipErr != nil || !addr.IsLoopback()):
		f.in("listen").say("%s is not a loopback address: write public: true if anybody may reach it", c.Listen)
	case c.Public && c.Token == "":
		f.in("token").say("missing: whoever reaches a public endpoint could append")
	}
	if c.Path != "" && !isPath(c.Path) {
		f.in("path").say("%.64q: want it as /events or /in/events, with letters of A-Z a-z 0-9 . _ ~ -", c.Path)
	}
	within(f.in("max_body"), c.MaxBody, 1, 8<<20)
	within(f.in("timeout"), c.Timeout, Duration(time.Millisecond), Duration(10*time.Minute))
	within(f.in("in_flight"), c.InFlight, 1, 4096)
}

func (c *Watermill) check(f finder) {
	if c.Name == "" {
		f.in("name").say("missing: what the registry of topology.Run has")
	}
	if c.Topic == "" {
		f.in("topic").say("missing")
	}
}

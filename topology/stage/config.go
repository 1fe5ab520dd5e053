package stage

import (
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Config declares a stage: From, exactly one verb, and To where the verb has results.
type Config struct {
	// From is the stream that the stage reads, "scope/stream".
	From string `yaml:"from"`
	// To is the stream that it appends to, of the same scope. Route, Job and Webhook need none.
	To string `yaml:"to,omitempty"`

	// Filter passes the messages on for which it is true.
	Filter Expr `yaml:"filter,omitempty"`
	// Map makes another message of each.
	Map *Map `yaml:"map,omitempty"`
	// KeyBy gives each message another key: a text, or a number, which is written in decimal.
	KeyBy Expr `yaml:"key_by,omitempty"`
	// Route gives each message to the first stream whose condition holds.
	Route []Route `yaml:"route,omitempty"`
	// Dedupe drops what was seen.
	Dedupe *Dedupe `yaml:"dedupe,omitempty"`
	// Throttle lets so many pass in a time.
	Throttle *Throttle `yaml:"throttle,omitempty"`
	// Batch makes one message of many.
	Batch *Batch `yaml:"batch,omitempty"`
	// Window adds messages up by time.
	Window *Window `yaml:"window,omitempty"`
	// Join adds to each message what a state has for it.
	Join *Join `yaml:"join,omitempty"`
	// Decide makes events of commands.
	Decide *Decide `yaml:"decide,omitempty"`
	// Exec gives messages to a child process.
	Exec *Exec `yaml:"exec,omitempty"`
	// Webhook posts messages.
	Webhook *Webhook `yaml:"webhook,omitempty"`
	// Job enqueues a job for each message.
	Job *Job `yaml:"job,omitempty"`
	// Func is the name of a Go function of the registry.
	Func string `yaml:"func,omitempty"`

	// Attempts is how often a message is tried; then it goes to the stage's dead letters. Default 10, at most 1000. Small, an
	// outage of what the stage calls fills the dead letters; large, a bad message holds up those behind it.
	Attempts int `yaml:"attempts,omitempty"`
	// Backoff is the pause after the first failure; it doubles with each. Default 100ms, at most 1h.
	Backoff Duration `yaml:"backoff,omitempty"`
	// Lease is how long the owner may be silent before another takes over. Default 30s.
	Lease Duration `yaml:"lease,omitempty"`
}

// Map says what becomes of a message; what is not given stays. In YAML a text is its Data.
type Map struct {
	// Data is the payload: a text as it is, anything else as JSON.
	Data Expr `yaml:"data,omitempty"`
	// Key and Type are texts, or numbers.
	Key  Expr `yaml:"key,omitempty"`
	Type Expr `yaml:"type,omitempty"`
	// Headers are set beside those of the message; one that comes to nil is taken away.
	Headers map[string]Expr `yaml:"headers,omitempty"`
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Map) UnmarshalText(text []byte) error {
	m.Data = Expr(text)
	return nil
}

// Route is one way. The last may have no When: it takes the rest. What no way takes is dropped.
type Route struct {
	When Expr   `yaml:"when,omitempty"`
	To   string `yaml:"to"`
}

// Dedupe passes the first message of a key, and then none until the time has passed by the messages' own time.
type Dedupe struct {
	// Key tells what is the same: a text or a number.
	Key Expr `yaml:"key"`
	// Within is how long a key is remembered, from 1ms to 366d.
	Within Duration `yaml:"within"`
	// MaxKeys is how many are remembered at most; of more, the oldest is forgotten. Default 100000, at most 1000000.
	MaxKeys int `yaml:"max_keys,omitempty"`
}

// Throttle passes Count messages in each Per of the messages' own time, of each key.
type Throttle struct {
	Count int      `yaml:"count"`
	Per   Duration `yaml:"per"`
	// Key tells what counts together. Default: all.
	Key Expr `yaml:"key,omitempty"`
	// Over is the stream of the same scope that takes what is too much. Default: it is dropped.
	Over string `yaml:"over,omitempty"`
	// MaxKeys as that of Dedupe; one that is forgotten begins anew.
	MaxKeys int `yaml:"max_keys,omitempty"`
}

// Batch makes one message, whose data is a JSON array, of up to Size payloads.
type Batch struct {
	// Size is 2 to 1000.
	Size int `yaml:"size"`
	// Within closes a batch that is not full, once a message comes that is so much later than its first. Default: none.
	Within Duration `yaml:"within,omitempty"`
	// Key tells what goes together, and is the key of the batch. Default: the message's key.
	Key Expr `yaml:"key,omitempty"`
	// MaxOpen is how many batches are open at most; of more, the oldest is closed. Default 1000, at most 10000.
	MaxOpen int `yaml:"max_open,omitempty"`
}

// Join adds what a state of the scope has under a key. The message's data becomes {"data": ..., "joined": ...}, unless Data says
// otherwise: it sees the state's value as joined, nil where there is none.
type Join struct {
	// State is the name of a hash of the scope, as a projection's: latest.1.
	State string `yaml:"state"`
	// Key is the field. Default: the message's key.
	Key Expr `yaml:"key,omitempty"`
	// Data is the payload of the result.
	Data Expr `yaml:"data,omitempty"`
	// Missing says what becomes of a message whose key the state lacks: pass, which is the default, drop, or dead.
	Missing string `yaml:"missing,omitempty"`
}

// Decide makes events of commands: To is a keyed stream that nothing else appends to, and what a key is stands in its events and nowhere
// else. A command is decided on by what all events of its key fold to, those of the commands before it included, and its events are
// one commit with that it was decided.
type Decide struct {
	// Key is what the command is about, and the key of its events. Default: the message's key.
	Key Expr `yaml:"key,omitempty"`
	// Refuse comes to a text, why the command is refused, which then is in the dead letters, or to nil. It sees state.
	Refuse Expr `yaml:"refuse,omitempty"`
	// Events are those that a command has, in their order. They see state as it was before the command. Of a command that has none
	// nothing comes.
	Events []Event `yaml:"events"`
	// State is what a key is after an event, as that of a projection: it sees the event, and what was before as state, nil at first.
	// With another one, states are folded anew from the events.
	State Expr `yaml:"state"`
}

// Event is one that a command may have.
type Event struct {
	// When says whether there is one. Default: always.
	When Expr `yaml:"when,omitempty"`
	// Type is a text that names what has happened: "'order.placed'".
	Type Expr `yaml:"type"`
	// Data is the payload. Default: that of the command.
	Data Expr `yaml:"data,omitempty"`
}

// Exec gives messages to a child process, one JSON line each, and takes one line for each from it, in any order: see ExecRequest
// and ExecAnswer. A child that ends, or is ended, is begun anew; a message that is tried again is alone with it.
type Exec struct {
	// Command is the program and its arguments. No shell reads them.
	Command []string `yaml:"command"`
	// Env are the variables of the child; from this process it has PATH, HOME, LANG, TZ and TMPDIR only.
	Env map[string]string `yaml:"env,omitempty"`
	// Dir is where it runs. Default: here.
	Dir string `yaml:"dir,omitempty"`
	// Timeout is how long the answer to a message may take, 1ms to 1h; then the child is killed, and another begun. Default 30s.
	// Small, a child that starts slowly never answers; large, one that hangs holds up what it has for as long.
	Timeout Duration `yaml:"timeout,omitempty"`
	// InFlight is how many messages the child may hold. Default 16, at most 1024.
	InFlight int `yaml:"in_flight,omitempty"`
	// MaxLine is how long a line of the child may be. Default 1 MiB, at most 16 MiB.
	MaxLine Size `yaml:"max_line,omitempty"`
}

// Webhook posts each message to a URL. What it answers becomes the data of a message to To, if there is one.
type Webhook struct {
	// URL is http or https.
	URL string `yaml:"url"`
	// Secret signs each request: Webhook-Signature is "t=<unix seconds>,v1=<hex HMAC-SHA256 of '<t>.<id>.<body>'>".
	Secret string `yaml:"secret,omitempty"`
	// Headers are sent along.
	Headers map[string]string `yaml:"headers,omitempty"`
	// Body is what is posted. Default: the data as it is.
	Body Expr `yaml:"body,omitempty"`
	// Timeout is how long a request may take as a whole. Default 10s, at most 10m.
	Timeout Duration `yaml:"timeout,omitempty"`
	// InFlight is how many requests are under way at most. Default 8, at most 256.
	InFlight int `yaml:"in_flight,omitempty"`
	// MaxAnswer is how much of an answer is read. Default 64 KiB, at most 1 MiB.
	MaxAnswer Size `yaml:"max_answer,omitempty"`
}

// Job enqueues a job for each message: once, whatever is repeated, for as long as Unique.
type Job struct {
	Queue string `yaml:"queue"`
	// Lane is a text. Default: the message's key.
	Lane Expr `yaml:"lane,omitempty"`
	Type Expr `yaml:"type,omitempty"`
	Data Expr `yaml:"data,omitempty"`
	// Delay is how long after it was enqueued the job is due.
	Delay Duration `yaml:"delay,omitempty"`
	// Unique is how long the message is known to have its job. Default 7d.
	Unique Duration `yaml:"unique,omitempty"`
}

// Verbs are the kinds of stages, as in YAML.
var Verbs = []string{"filter", "map", "key_by", "route", "dedupe", "throttle", "batch", "window", "join", "decide", "exec", "webhook", "job", "func"}

// Verb is the one that the stage has; empty when there is none, or more than one.
func (c *Config) Verb() string {
	if verbs := c.verbs(); len(verbs) == 1 {
		return verbs[0]
	}
	return ""
}

func (c *Config) verbs() (have []string) {
	given := []bool{
		c.Filter != "", c.Map != nil, c.KeyBy != "", c.Route != nil, c.Dedupe != nil, c.Throttle != nil, c.Batch != nil,
		c.Window != nil, c.Join != nil, c.Decide != nil, c.Exec != nil, c.Webhook != nil, c.Job != nil, c.Func != "",
	}
	for i, verb := range Verbs {
		if given[i] {
			have = append(have, verb)
		}
	}
	return have
}

// Outputs are the streams that the stage appends to.
func (c *Config) Outputs() (to []string) {
	add := func(address string) {
		if address != "" {
			to = append(to, address)
		}
	}
	add(c.To)
	for _, r := range c.Route {
		add(r.To)
	}
	if c.Throttle != nil {
		add(c.Throttle.Over)
	}
	if c.Window != nil {
		add(c.Window.Late)
	}
	return to
}

// Check finds what is wrong with the declaration. Names of Go functions are not looked up: the run's registry has them.
func (c *Config) Check() Problems {
	var found Problems
	f := finder{found: &found}
	from, ok := f.address("from", c.From)
	for i, r := range c.Route {
		to := f.in("route", fmt.Sprint(i))
		to.target("to", r.To, from, ok)
		if r.When == "" && i < len(c.Route)-1 {
			to.say("no when: it would take all, and the ways behind it nothing; only the last goes without")
		}
		to.expr("when", r.When, boolResult)
	}
	verb := c.Verb()
	switch verbs := c.verbs(); len(verbs) {
	case 0:
		f.say("no verb: write one of %v", Verbs)
	case 1:
	default:
		f.say("verbs %v: a stage has one; write a stage for each", verbs)
	}
	switch {
	case verb == "route" && c.To != "":
		f.in("to").say("a route has a to for each way, and none beside them")
	case c.To != "":
		f.target("to", c.To, from, ok)
	case verb != "route" && verb != "job" && verb != "webhook" && verb != "exec" && verb != "func":
		f.in("to").say("missing: the stream of the same scope that the results go to")
	}
	f.expr("filter", c.Filter, boolResult)
	f.expr("key_by", c.KeyBy, anyResult)
	c.checkVerb(f, from, ok)
	within(f.in("attempts"), c.Attempts, 1, 1000)
	within(f.in("backoff"), c.Backoff, Duration(time.Millisecond), Duration(time.Hour))
	within(f.in("lease"), c.Lease, Duration(time.Second), Duration(time.Hour))
	return found
}

// address reads an address of a stream.
func (f finder) address(field, text string) (a tier.Address, ok bool) {
	if text == "" {
		f.in(field).say("missing: a stream, as scope/stream")
		return a, false
	}
	a, err := tier.ParseAddress(text)
	if err != nil {
		f.in(field).say("%v", err)
	}
	return a, err == nil
}

// target is an address of the input's scope.
func (f finder) target(field, text string, from tier.Address, known bool) {
	if a, ok := f.address(field, text); ok && known && a.Scope != from.Scope {
		f.in(field).say("%s is not in scope %s: what a stage appends is one commit with its checkpoint, inside a scope", text, from.Scope)
	}
}

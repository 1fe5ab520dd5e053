package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// TrialOptions are what a trial has in place of a server.
type TrialOptions struct {
	Options
	// State is what Join finds: the value of a field of its state, as JSON.
	State map[string]json.RawMessage
	// Answer is what a webhook answers to each request, which reaches nobody.
	Answer json.RawMessage
}

// Trial is a stage without a server: messages go in, and what it makes of them comes out. Its state begins empty, and stands in
// memory. Each message is tried once. A child process is run as it is; nothing else of the world is touched.
type Trial struct {
	process *process         // of a stage that decides
	handle  consumer.Handler // of one that calls
	end     func()
	joined  map[string]json.RawMessage

	jobs  []queue.Job // of the message
	posts [][]byte
}

// Tried is what has come of a message.
type Tried struct {
	Outputs []tier.Output
	Jobs    []queue.Job
	Posts   [][]byte // bodies of requests
	Err     error    // with which it would be in the dead letters
}

// NewTrial makes a stage to be tried. Whoever makes it closes it.
//
// Errors: those of New.
func NewTrial(name string, cfg Config, opts TrialOptions) (*Trial, error) {
	if err := cfg.Check().Err(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	c, t := &compiler{}, &Trial{end: func() {}, joined: opts.State}
	var err error
	switch cfg.Verb() {
	case "exec", "webhook", "job", "func":
		cfg.Attempts = 1
		out := outside{enqueue: func(_ context.Context, job queue.Job) error {
			t.jobs = append(t.jobs, job)
			return nil
		}, transport: trialTransport{t, opts.Answer}}
		t.handle, _, t.end, err = c.handler(name, cfg, opts.Options, out)
	default:
		var d decider
		d, err = c.decider(nil, name, cfg, newMetrics(nil, name))
		if j, ok := d.(*joining); ok {
			j.look = t.look
		}
		t.process = &process{decider: d, name: name, env: newEnv(), outputs: cfg.Outputs(), metrics: newMetrics(nil, name)}
	}
	if err == nil {
		err = c.problems.Err()
	}
	if err != nil {
		return nil, err
	}
	if t.process != nil {
		t.process.begin(codec.EntryID{})
	}
	return t, nil
}

// Close ends the child process, if there is one.
func (t *Trial) Close() { t.end() }

// Try gives the stage a message, which is appended after all before it.
func (t *Trial) Try(ctx context.Context, r codec.Record) Tried {
	t.jobs, t.posts = nil, nil
	batch := []consumer.Delivery{{Record: r, Attempt: 1, MaxAttempts: 1}}
	var err error
	if t.handle != nil {
		err = t.handle(ctx, &batch[0])
	} else {
		if _, err = t.process.Handle(ctx, batch); err == nil {
			t.process.Committed()
			if len(t.process.dead) > 0 {
				err = t.process.dead[0].Err
			}
		}
	}
	if err != nil {
		return Tried{Err: err}
	}
	return Tried{Outputs: batch[0].Outputs(), Jobs: t.jobs, Posts: t.posts}
}

func (t *Trial) look(_ context.Context, keys ...string) ([]tier.Field, error) {
	fields := make([]tier.Field, len(keys))
	for i, key := range keys {
		value, ok := t.joined[key]
		fields[i] = tier.Field{Value: string(value), OK: ok}
	}
	return fields, nil
}

// trialTransport notes requests, and answers them.
type trialTransport struct {
	trial  *Trial
	answer json.RawMessage
}

// RoundTrip implements http.RoundTripper.
func (t trialTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	t.trial.posts = append(t.trial.posts, body)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(t.answer)), Request: r,
	}, nil
}

// Value is the payload of a message as expressions see it: JSON and msgpack as values, anything else a text.
func Value(m *codec.Message) (any, error) { return decodeData(m) }

// SetValue makes a value the payload of a message: a text as it is, anything else as JSON.
func SetValue(m *codec.Message, v any) error { return setData(m, v) }

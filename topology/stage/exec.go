package stage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// ExecRequest is a line that a child process is given for a message.
type ExecRequest struct {
	ID      string            `json:"id"` // of the message; the answer has it
	Attempt int               `json:"attempt"`
	Key     string            `json:"key"`
	Type    string            `json:"type"`
	Time    string            `json:"time"` // when it was appended, in RFC 3339
	Headers map[string]string `json:"headers"`
	// Data is JSON as it is, msgpack as JSON, a text as a string; other bytes are a string in base64, and Encoding says so.
	Data     json.RawMessage `json:"data"`
	Encoding string          `json:"encoding,omitempty"`
}

// ExecAnswer is the line that answers one.
type ExecAnswer struct {
	ID string `json:"id"`
	// Out are the messages to append, in their order. None: nothing comes of it.
	Out []ExecOutput `json:"out,omitempty"`
	// Error fails the message: it is tried again, unless Permanent, which has it in the dead letters at once.
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}

// ExecOutput is a message of an answer. What is not given is that of the message that it answers.
type ExecOutput struct {
	Key  *string `json:"key,omitempty"`
	Type *string `json:"type,omitempty"`
	// Headers are set beside those of the message; null takes one away.
	Headers map[string]*string `json:"headers,omitempty"`
	// Data is a text as it is, anything else as JSON.
	Data json.RawMessage `json:"data,omitempty"`
}

// executing gives messages to a child process. One that is tried again is alone with it: what a child dies of takes nobody
// along twice.
type executing struct {
	to      string
	timeout time.Duration
	room    int64
	turns   *semaphore.Weighted
	supervisor
}

// newExec finds the program, so that what is not there fails the start and no message.
func newExec(name string, cfg Config, opts Options) (*executing, error) {
	e := cfg.Exec
	program := e.Command[0]
	if !strings.ContainsRune(program, filepath.Separator) {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, fmt.Errorf("stage: exec: %w: install it, or write where it is", err)
		}
		program = path
	} else if !filepath.IsAbs(program) {
		program = filepath.Join(e.Dir, program)
	}
	if info, err := os.Stat(program); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("stage: exec: %q is no program that can be run: a relative path is taken from dir", program)
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, fmt.Errorf("stage: exec: %w", err)
	}
	room := or(e.InFlight, 16)
	return &executing{
		to: cfg.To, timeout: time.Duration(or(e.Timeout, Duration(30*time.Second))), room: int64(room), turns: semaphore.NewWeighted(int64(room)),
		supervisor: supervisor{
			program: program, cfg: *e, first: time.Duration(or(cfg.Backoff, defaultBackoff)), turn: semaphore.NewWeighted(1),
			log: opts.Logger.With(slog.String("stage", name), slog.String("program", filepath.Base(program))),
		},
	}, nil
}

func (x *executing) handle(ctx context.Context, d *consumer.Delivery) error {
	line, err := execLine(d)
	if err != nil {
		return consumer.Permanent(err)
	}
	share := int64(1)
	if d.Attempt > 1 || d.MaxAttempts == 1 {
		share = x.room
	}
	if err := x.turns.Acquire(ctx, share); err != nil {
		return context.Cause(ctx)
	}
	defer x.turns.Release(share)
	c, err := x.running(ctx)
	if err != nil {
		return err
	}
	a, err := c.ask(ctx, d.ID.String(), line, x.timeout)
	switch {
	case err != nil:
		return err
	case a.Error != "":
		err := fmt.Errorf("stage: %s: %.1000s", filepath.Base(x.program), a.Error)
		if a.Permanent {
			return consumer.Permanent(err)
		}
		return err
	case len(a.Out) > 0 && x.to == "":
		return consumer.Permanent(fmt.Errorf("stage: %s answered with messages, and the stage has no to", filepath.Base(x.program)))
	}
	for i := range a.Out {
		d.Emit(tier.AppendTo(x.to, a.Out[i].message(&d.Message)))
	}
	return nil
}

// execLine is the request for a message.
func execLine(d *consumer.Delivery) ([]byte, error) {
	r := ExecRequest{
		ID: d.ID.String(), Attempt: d.Attempt, Key: d.Key, Type: d.Type, Time: appended(&d.Record).Format(time.RFC3339Nano), Headers: map[string]string{},
	}
	for _, h := range d.Headers {
		r.Headers[h.Key] = h.Value
	}
	v, err := decodeData(&d.Message)
	if err != nil {
		return nil, err
	}
	text, isText := v.(string)
	switch {
	case d.Format == codec.FormatBytes && !isText:
		r.Data = d.Data // to the digit
	case isText && !utf8.ValidString(text):
		r.Encoding = "base64"
		v = base64.StdEncoding.EncodeToString([]byte(text))
		fallthrough
	default:
		if r.Data, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	line, err := json.Marshal(r) // which has no line ends in it
	return append(line, '\n'), err
}

// message is what an output makes of the message that was asked about.
func (o *ExecOutput) message(in *codec.Message) codec.Message {
	m := *in
	if o.Key != nil {
		m.Key = *o.Key
	}
	if o.Type != nil {
		m.Type = *o.Type
	}
	m.Headers = append(codec.Headers(nil), in.Headers...)
	if o.Data != nil {
		m.Format, m.Data = codec.FormatBytes, o.Data
		kind, text := "application/json", ""
		if json.Unmarshal(o.Data, &text) == nil && o.Data[0] == '"' {
			m.Data, kind = []byte(text), "text/plain"
		}
		m.Headers.Set(codec.HeaderContentType, kind)
	}
	for name, value := range o.Headers {
		if value == nil {
			m.Headers = without(m.Headers, name)
		} else {
			m.Headers.Set(name, *value)
		}
	}
	return m
}

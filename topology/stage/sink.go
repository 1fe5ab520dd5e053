package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// SinkState is the name of what a sink keeps beside its checkpoint, a hash of the scope.
func SinkState(name string) string { return "sink." + name }

// NewSink makes the sink of a declaration. Its cursor has its name. It sends nothing and opens nothing.
//
// Errors: Problems; ErrNoTopics.
func NewSink(client *tier.Client, name string, cfg SinkConfig, opts Options) (Runner, error) {
	if err := tier.CheckName("sink", name); err != nil {
		return nil, err
	}
	if err := cfg.Check().Err(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	from, err := tier.ParseAddress(cfg.From)
	if err != nil {
		return nil, err
	}
	s := &lineSink{client: client, scope: from.Scope, state: SinkState(name), metrics: newMetrics(opts.Registerer, name)}
	switch {
	case cfg.File != nil:
		s.path, s.whole = cfg.File.Path, cfg.File.format() == "jsonl"
	case cfg.Stdout != nil:
		s.out, s.whole = os.Stdout, cfg.Stdout.Format != "lines"
	case cfg.Webhook != nil:
		return New(client, name, Config{From: cfg.From, Webhook: cfg.Webhook, Lease: cfg.Lease}, opts)
	default:
		publisher, given := opts.Publishers[cfg.Watermill.Name]
		if !given {
			return nil, fmt.Errorf("%w: %.64q", ErrNoTopics, cfg.Watermill.Name)
		}
		opts.Funcs = map[string]Func{name: publisher(cfg.Watermill.Topic)}
		return New(client, name, Config{From: cfg.From, Func: name, Lease: cfg.Lease}, opts)
	}
	return projection.NewProcess(client, projection.ProcessConfig{Address: cfg.From, Name: name, Lease: time.Duration(cfg.Lease), Logger: opts.Logger.With(slog.String("sink", name))}, s)
}

// lineSink writes a line for each message. How long the file is stands in the commit that moves the checkpoint, and what is
// behind that when it begins was written by a commit that never came: it is cut off, and written again. So a file on one
// machine has each message once. Standard output has no such thing.
type lineSink struct {
	client       *tier.Client
	scope, state string
	path         string
	whole        bool // the message, not its data only
	out          io.Writer
	metrics      *metrics

	fresh bool
	file  *os.File
	size  int64 // with what was handled
	open  []int // messages of batches that are not committed
}

// Begin implements projection.Process.
func (s *lineSink) Begin(_ context.Context, checkpoint codec.EntryID) error {
	s.fresh = checkpoint.IsZero()
	s.Forget()
	return nil
}

func (s *lineSink) openFile(ctx context.Context) error {
	s.size = 0
	if !s.fresh {
		fields, err := s.client.StateFields(ctx, s.scope, s.state, "bytes")
		if err != nil {
			return err
		}
		if !fields[0].OK {
			return &projection.StateLostError{Stream: s.scope, State: s.state}
		}
		if s.size, err = strconv.ParseInt(fields[0].Value, 10, 64); err != nil {
			return fmt.Errorf("stage: state %s: %w", s.state, err)
		}
	}
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < s.size {
		err = fmt.Errorf("stage: %s has %d bytes, and %d were written: part of it was lost, or it is another file; move it away and reset the sink's cursor to write it anew", s.path, info.Size(), s.size)
	}
	if err == nil {
		err = file.Truncate(s.size)
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	s.file = file
	return nil
}

// Handle implements projection.Process.
func (s *lineSink) Handle(ctx context.Context, batch []consumer.Delivery) (e projection.Effects, err error) {
	if s.out == nil && s.file == nil {
		if err := s.openFile(ctx); err != nil {
			return e, err
		}
	}
	var text []byte
	written := 0
	for i := range batch {
		d := &batch[i]
		if d.Foreign() {
			e.Dead = append(e.Dead, projection.MessageError{Index: i, Err: errForeign})
			continue
		}
		if d.Type == WatermarkType {
			continue
		}
		written++
		line := d.Data
		if s.whole {
			if line, err = lineOf(&d.Record); err != nil {
				return e, &projection.MessageError{Index: i, Err: consumer.Permanent(err)}
			}
		}
		text = append(append(text, line...), '\n')
	}
	s.open = append(s.open, written)
	if s.out != nil {
		_, err = s.out.Write(text)
		return e, err
	}
	if _, err = s.file.WriteAt(text, s.size); err == nil {
		err = s.file.Sync()
	}
	s.size += int64(len(text))
	e.After = []tier.Output{tier.HashSet(s.state, "bytes", strconv.FormatInt(s.size, 10))}
	return e, err
}

// Committed implements projection.Process.
func (s *lineSink) Committed() {
	s.metrics.handled.Add(float64(s.open[0]))
	s.fresh, s.open = false, slices.Delete(s.open, 0, 1)
}

// Forget implements projection.Process.
func (s *lineSink) Forget() {
	s.open = nil
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// line is a message as JSON.
type line struct {
	ID      string            `json:"id"`
	Key     string            `json:"key,omitempty"`
	Type    string            `json:"type,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Data    any               `json:"data"`
}

func lineOf(r *codec.Record) ([]byte, error) {
	v, err := decodeData(&r.Message)
	if err != nil {
		return nil, err
	}
	if r.Format == codec.FormatBytes {
		if _, isText := v.(string); !isText {
			v = json.RawMessage(r.Data) // as it was written
		}
	}
	l := line{ID: r.ID.String(), Key: r.Key, Type: r.Type, Data: v}
	for _, h := range r.Headers {
		if h.Key != codec.HeaderContentType {
			if l.Headers == nil {
				l.Headers = map[string]string{}
			}
			l.Headers[h.Key] = h.Value
		}
	}
	return json.Marshal(l)
}

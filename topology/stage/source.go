package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// NewSource makes the source of a declaration. It sends nothing and opens nothing. A file's Run ends at the end of the file.
//
// Errors: Problems; ErrNoTopics.
func NewSource(client *tier.Client, name string, cfg SourceConfig, opts Options) (Runner, error) {
	if err := tier.CheckName("source", name); err != nil {
		return nil, err
	}
	if err := cfg.Check().Err(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	c := &compiler{}
	f := &feed{
		client: client, name: name, to: cfg.To, env: newEnv(), log: opts.Logger.With(slog.String("source", name)), ready: make(chan struct{}),
		metrics: newMetrics(opts.Registerer, name),
		make: mapping{
			data: c.compile(cfg.Data, anyResult, "data"), key: c.compile(cfg.Key, anyResult, "key"), kind: c.compile(cfg.Type, anyResult, "type"),
			headers: c.headers(cfg.Headers),
		},
	}
	if err := c.problems.Err(); err != nil {
		return nil, err
	}
	switch {
	case cfg.File != nil:
		return &fileSource{feed: f, file: *cfg.File}, nil
	case cfg.Stdin != nil:
		return &fileSource{feed: f, file: File{Format: or(cfg.Stdin.Format, "lines")}, in: os.Stdin}, nil
	case cfg.HTTP != nil:
		return newIngest(f, *cfg.HTTP), nil
	}
	return newTopicSource(f, *cfg.Watermill, opts)
}

func (c *compiler) headers(texts map[string]Expr, path ...string) (all []namedProgram) {
	for name, text := range texts {
		all = append(all, namedProgram{name, c.compile(text, anyResult, append(path[:len(path):len(path)], "headers", name)...)})
	}
	return all
}

// feed makes messages of what is read.
type feed struct {
	client   *tier.Client
	name, to string
	env      *env
	make     mapping
	log      *slog.Logger
	metrics  *metrics
	ran      atomic.Bool
	ready    chan struct{}
}

// Ready implements Runner.
func (f *feed) Ready() <-chan struct{} { return f.ready }

func (f *feed) message(in codec.Message) (codec.Message, error) {
	r := codec.Record{Message: in}
	f.env.set(&r)
	return f.make.message(f.env, in)
}

// fileSource appends what a file has, as a named producer: record n of the file is its position 2n, and the watermark behind
// it 2n+1. So whoever goes on begins behind what was appended.
type fileSource struct {
	*feed
	file File
	in   io.Reader // not a file that can be read again: what it has is appended once, as it comes
}

const (
	feedMessages = 500
	feedBytes    = 512 << 10

	drainTimeout = 10 * time.Second // for what was read, once a source is to stop
)

// Run implements Runner.
func (s *fileSource) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return consumer.ErrRan
	}
	cfg := stream.WriterConfig{Address: s.to}
	if s.in == nil {
		cfg.Producer = "source." + s.name
	}
	w, err := stream.NewWriter(s.client, cfg)
	if err != nil {
		return err
	}
	close(s.ready)
	for try := 1; ; try++ {
		err := s.pass(ctx, w)
		class := tier.Classify(err)
		again := errors.Is(err, stream.ErrProducerMoved) || class != nil && class.Reaction != tier.Surface
		switch {
		case err == nil || errors.Is(err, errStopped) || s.in == nil && ctx.Err() != nil:
			return nil
		case !again || s.in != nil:
			return fmt.Errorf("stage: source %s: %w", s.name, err)
		}
		s.log.Warn("source goes on after a pause, from what the server has", slog.Int("try", try), slog.Any("err", err))
		if !tier.Pause(ctx, tier.CallDelay(try)) {
			return nil
		}
	}
}

// pass reads the file from its beginning, and appends what the stream does not have yet. What a pipe has given is appended
// when nothing more is there, and also once the source is to stop.
func (s *fileSource) pass(ctx context.Context, w *stream.Writer) error {
	b := &feeding{fileSource: s, writer: w}
	var in io.Reader
	calls := ctx
	if s.in == nil {
		file, err := os.Open(s.file.Path)
		if err != nil {
			return err
		}
		defer file.Close()
		if b.had, err = w.Position(ctx); err != nil {
			return err
		}
		b.after, b.last, in = b.had, b.had, file
	} else {
		var end context.CancelFunc
		calls, end = context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(drainTimeout, end) })()
		in = newPipe(s.in, ctx.Done(), func() error { return b.flush(calls) })
	}
	records, err := newRecords(in, s.file.format())
	if err != nil {
		return err
	}
	for {
		m, err := records.next()
		record, isRecord := errors.AsType[errRecord](err)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !isRecord {
			return cmp.Or(b.flush(calls), err)
		}
		if b.position += 2; b.position <= b.had {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if err = record.error; !isRecord {
			m, err = s.message(m)
		}
		if err == nil {
			err = fits(&m)
		}
		if err != nil {
			s.metrics.dead.Inc()
			s.log.Error("record passed over", slog.String("file", s.file.Path), slog.Uint64("record", b.position/2), slog.Any("err", err))
			continue
		}
		if err := b.add(calls, m); err != nil {
			return err
		}
	}
	if err := b.flush(calls); err != nil {
		return err
	}
	if b.position+1 < b.had {
		return &ShorterError{File: s.file.Path, Have: b.position / 2, Want: b.had / 2}
	}
	if s.file.Watermark && b.position+1 > b.had {
		b.batch, b.last = []codec.Message{{Type: WatermarkType}}, b.position+1
	}
	return b.flush(calls)
}

// fits tells whether a message may be appended, since a call that holds one that may not is refused whole.
func fits(m *codec.Message) error {
	if m.Size() <= stream.DefaultMaxMessage {
		return nil
	}
	encoded, err := codec.AppendMessage(nil, m)
	if err == nil && len(encoded) > stream.DefaultMaxMessage {
		err = &stream.TooLargeError{What: "message, bytes", Size: len(encoded), Limit: stream.DefaultMaxMessage}
	}
	return err
}

// ShorterError says that a file has fewer records than were appended of it: it is another one, or was cut.
type ShorterError struct {
	File       string
	Have, Want uint64
}

func (e *ShorterError) Error() string {
	return fmt.Sprintf("%s has %d records, and %d were appended: a source goes on behind those, whatever they were: give the source of another file another name", e.File, e.Have, e.Want)
}

// feeding is one pass over a file.
type feeding struct {
	*fileSource
	writer      *stream.Writer
	had         uint64 // position up to which the stream has it
	position    uint64 // of the record that was read
	after, last uint64 // in front of the batch, and of its end
	batch       []codec.Message
	bytes       int
}

func (b *feeding) add(ctx context.Context, m codec.Message) error {
	b.batch, b.bytes, b.last = append(b.batch, m), b.bytes+len(m.Data), b.position
	if len(b.batch) < feedMessages && b.bytes < feedBytes {
		return nil
	}
	return b.flush(ctx)
}

func (b *feeding) flush(ctx context.Context) (err error) {
	if len(b.batch) == 0 {
		return ctx.Err()
	}
	if b.in == nil {
		_, err = b.writer.AppendAfter(ctx, b.after, b.last, b.batch)
	} else {
		_, err = b.writer.AppendBatch(ctx, b.batch)
	}
	if err == nil {
		b.metrics.handled.Add(float64(len(b.batch)))
	}
	b.after, b.batch, b.bytes = b.last, make([]codec.Message, 0, feedMessages), 0
	return err
}

package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/internal/duration"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// newCalling makes a stage whose messages have an effect outside the commit: they are handled at the same time, those of one key
// in their order. What a message appends is committed with it; the effect outside happens at least once.
func (c *compiler) newCalling(client *tier.Client, name string, cfg Config, opts Options) (Runner, error) {
	cursor, err := stream.NewCursor(client, stream.CursorConfig{Address: cfg.From, Name: name, Start: stream.Head(), Lease: time.Duration(cfg.Lease)})
	if err != nil {
		return nil, err
	}
	consumerCfg := consumer.Config{
		Order: consumer.ByKey, MaxDeliveries: or(cfg.Attempts, 10), Backoff: time.Duration(or(cfg.Backoff, defaultBackoff)),
		Logger: opts.Logger, Registerer: opts.Registerer,
	}
	var out outside
	if cfg.Job != nil {
		jobs, err := queue.NewClient(client, queue.Config{Queue: cfg.Job.Queue})
		if err != nil {
			return nil, err
		}
		out.enqueue = func(ctx context.Context, job queue.Job) error {
			if _, err := jobs.Enqueue(ctx, job); !errors.As(err, new(*queue.UniqueError)) {
				return err
			}
			return nil // it was enqueued before
		}
	}
	handler, room, end, err := c.handler(name, cfg, opts, out)
	if err != nil {
		return nil, err
	}
	consumerCfg.Concurrency = room
	calls, err := consumer.New(consumer.Exclusive(cursor), handler, consumerCfg)
	return &calling{calls, end}, err
}

// outside is what such stages do beside the commit.
type outside struct {
	enqueue   func(ctx context.Context, job queue.Job) error
	transport http.RoundTripper // nil: the network
}

// handler is what such a stage does with a message, at how many of them at the same time, 0 for as many as consumers do, and what is
// called when nothing is handled any more.
func (c *compiler) handler(name string, cfg Config, opts Options, out outside) (_ consumer.Handler, room int, end func(), err error) {
	var handler consumer.Handler
	end = func() {}
	switch {
	case cfg.Exec != nil:
		x, err := newExec(name, cfg, opts)
		if err != nil {
			return nil, 0, nil, err
		}
		handler, room, end = x.handle, int(x.room), x.end
	case cfg.Func != "":
		f, ok := opts.Funcs[cfg.Func]
		if !ok {
			return nil, 0, nil, fmt.Errorf("%w: %.64q", ErrNoFunc, cfg.Func)
		}
		handler = f
	case cfg.Webhook != nil:
		handler, room = c.newHook(*cfg.Webhook, cfg.To, out.transport).handle, or(cfg.Webhook.InFlight, 8)
	default:
		handler = c.newEnqueuing(name, *cfg.Job, out.enqueue)
	}
	outputs := cfg.Outputs()
	return func(ctx context.Context, d *consumer.Delivery) error {
		switch {
		case d.Foreign():
			return consumer.Permanent(errForeign)
		case d.Type != WatermarkType:
			return handler(ctx, d)
		}
		if m, first := watermark(d.Message, name); first {
			for _, to := range outputs {
				d.Emit(tier.AppendTo(to, m))
			}
		}
		return nil
	}, room, end, nil
}

// calling is such a stage; end is called when nothing is handled any more.
type calling struct {
	*consumer.Consumer
	end func()
}

// Run implements Runner.
func (c *calling) Run(ctx context.Context) error {
	err := c.Consumer.Run(ctx)
	if !errors.Is(err, consumer.ErrRan) {
		c.end()
	}
	return err
}

// ErrNoFunc says that the registry has no function of the name that a stage has.
var ErrNoFunc = errors.New("stage: there is no Go function of this name: add it to Options.Funcs")

// newEnqueuing enqueues a job for each message. Its unique key is the message's address, so that a repeated one is the same job.
func (c *compiler) newEnqueuing(name string, cfg Job, enqueue func(context.Context, queue.Job) error) consumer.Handler {
	m := mapping{data: c.compile(cfg.Data, anyResult, "job", "data"), kind: c.compile(cfg.Type, anyResult, "job", "type")}
	lane := c.compile(cfg.Lane, anyResult, "job", "lane")
	return func(ctx context.Context, d *consumer.Delivery) error {
		e := newEnv()
		e.set(&d.Record)
		message, err := m.message(e, d.Message)
		job := queue.Job{Message: message, Delay: time.Duration(cfg.Delay)}
		if err == nil {
			job.Lane, err = lane.textOr(e, d.Key, codec.MaxKey)
		}
		if err != nil {
			return permanent(err)
		}
		job.Unique = queue.Unique{Key: name + " " + d.ID.String(), Until: queue.UntilTime, For: time.Duration(or(cfg.Unique, Duration(7*duration.Day)))}
		return enqueue(ctx, job)
	}
}

// permanent makes what an expression cannot do one that is not tried again.
func permanent(err error) error {
	if errors.As(err, new(*EvalError)) {
		return consumer.Permanent(err)
	}
	return err
}

// answered is what a stage appends of an answer.
func answered(d *consumer.Delivery, to, contentType string, data []byte) {
	if to == "" {
		return
	}
	m := codec.Message{Type: d.Type, Key: d.Key, Headers: append(codec.Headers(nil), d.Headers...), Data: data}
	m.Headers.Set(codec.HeaderContentType, contentType)
	d.Emit(tier.AppendTo(to, m))
}

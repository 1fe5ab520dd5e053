package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// What the works of a log have by themselves.
const (
	appenders = 128
	handlers  = 8
	fillBatch = 2000 // messages of a call that fills a log
	groupName = "bench"
)

var (
	publishWork = Work{
		Name: "stream-publish", What: "Publish, which does not wait, from one goroutine",
		ceiling: ceilingAppend, contestant: func(a *arena) contestant { return &publishes{arena: a, pack: 1} },
	}
	appendWork = Work{
		Name: "stream-append", What: "Append, which waits for its id, from many goroutines",
		ceiling: ceilingAppend, atOnce: appenders, contestant: func(a *arena) contestant { return &appends{arena: a} },
	}
	consumeWork = Work{
		Name: "stream-consume", What: "a consumer of a group whose handler only counts",
		ceiling: ceilingConsume, atOnce: handlers, contestant: func(a *arena) contestant { return &consumes{arena: a, pack: 1} },
	}
	publishTwoWork = Work{
		Name: "stream-publish-2", What: "the same into two streams, from a goroutine and a writer each",
		ceiling: ceilingAppend, contestant: func(a *arena) contestant {
			return together{&publishes{arena: a, pack: 1}, &publishes{arena: a, pack: 1}}
		},
	}
	bothTwoWork = Work{
		Name: "stream-2", What: "the same with two streams, half of the messages each",
		ceiling: ceilingBoth, atOnce: handlers, contestant: func(a *arena) contestant {
			return together{&both{arena: a, pack: 1}, &both{arena: a, pack: 1}}
		},
	}
	bothWork = Work{
		Name: "stream", What: "Publish and a consumer at once, from the first message sent to the last one settled",
		ceiling: ceilingBoth, atOnce: handlers, contestant: func(a *arena) contestant { return &both{arena: a, pack: 1} },
		latency: func(ctx context.Context, a *arena, l *openLoop) error { return streamLatency(ctx, a, l, 1) },
	}
)

// background runs something beside what is measured, until it is stopped.
type background struct {
	stop context.CancelFunc
	done chan error
}

func inBackground(ctx context.Context, run func(context.Context) error) *background {
	ctx, stop := context.WithCancel(ctx)
	b := &background{stop, make(chan error, 1)}
	go func() { b.done <- run(ctx) }()
	return b
}

// end stops it, waits, and says what went wrong. Nothing there is nothing to end.
func (b *background) end() error {
	if b == nil || b.done == nil {
		return nil
	}
	b.stop()
	err := <-b.done
	b.done = nil
	return err
}

// ready waits until something has begun to run, or has failed to.
func (b *background) ready(ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-b.done:
		b.done = nil
		return errors.Join(errors.New("bench: it ended before it was ready"), err)
	}
}

// sender is a writer, of one stream or of one with partitions.
type sender interface {
	Publish(ctx context.Context, m codec.Message, done func(codec.ID, error)) error
	Flush(ctx context.Context) error
	Ready() <-chan struct{}
	Run(ctx context.Context) error
}

// publisher is a writer that runs.
type publisher struct {
	sender
	running *background
}

func (a *arena) publisher(ctx context.Context, cfg stream.WriterConfig) (*publisher, error) {
	w, err := stream.NewWriter(a.client, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := w.Declare(ctx); err != nil {
		return nil, err
	}
	return running(ctx, w)
}

func running(ctx context.Context, w sender) (*publisher, error) {
	p := &publisher{w, inBackground(ctx, w.Run)}
	return p, p.running.ready(w.Ready())
}

// publishAll publishes n messages, and returns when all have their ids.
func (p *publisher) publishAll(ctx context.Context, message func(i int) codec.Message, n int) error {
	var failed atomic.Pointer[error]
	var had atomic.Int64
	done := func(_ codec.ID, err error) {
		if err != nil {
			first := err // else each call would take memory
			failed.CompareAndSwap(nil, &first)
		}
		had.Add(1)
	}
	for i := range n {
		if err := p.Publish(ctx, message(i), done); err != nil {
			return err
		}
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return short("published", had.Load(), int64(n))
}

// publishes is one publisher at full speed. Compressed, its messages are records, and not noise.
type publishes struct {
	*arena
	safe        tier.Durability
	pack, n     int
	compression codec.Compression
	log         string
	to          *publisher
}

func (p *publishes) prepare(ctx context.Context, n int) (err error) {
	address := p.address()
	p.n, p.log = n, address.LogKey()
	p.to, err = p.publisher(ctx, stream.WriterConfig{
		Address: address.String(), Pack: p.pack, Compression: p.compression, Replicas: p.safe.Replicas, Fsync: p.safe.Fsync,
	})
	return err
}

func (p *publishes) run(ctx context.Context) error {
	message := p.message
	if p.compression != codec.NoCompression {
		message = p.record
	}
	return p.to.publishAll(ctx, message, p.n)
}

func (p *publishes) keys() []string { return []string{p.log} }

func (p *publishes) clean(ctx context.Context) error {
	err := p.to.end()
	return errors.Join(err, p.delete(ctx, p.log))
}

func (p *publisher) end() error {
	if p == nil {
		return nil
	}
	return p.running.end()
}

// appends is many callers of one writer, each of which waits.
type appends struct {
	*arena
	n   int
	log string
	to  *stream.Writer
}

func (p *appends) prepare(ctx context.Context, n int) (err error) {
	address := p.address()
	p.n, p.log = n, address.LogKey()
	if p.to, err = stream.NewWriter(p.client, stream.WriterConfig{Address: address.String()}); err == nil {
		_, err = p.to.Declare(ctx)
	}
	return err
}

func (p *appends) run(ctx context.Context) error {
	return shared(ctx, p.concurrency(appenders), p.n, func(ctx context.Context, i int) error {
		_, err := p.to.Append(ctx, p.message(i))
		return err
	})
}

func (p *appends) keys() []string { return []string{p.log} }

func (p *appends) clean(ctx context.Context) error { return p.delete(ctx, p.log) }

// shared lets goroutines share n calls.
func shared(ctx context.Context, goroutines, n int, call func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	p := pool.New().WithContext(ctx).WithFirstError().WithCancelOnError()
	for range min(goroutines, n) {
		p.Go(func(ctx context.Context) error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := call(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return p.Wait()
}

// fillStream appends n messages as a writer does.
func (a *arena) fillStream(ctx context.Context, address string, pack, n int) error {
	w, err := stream.NewWriter(a.client, stream.WriterConfig{Address: address, Pack: pack})
	if err != nil {
		return err
	}
	for at := 0; at < n; at += fillBatch {
		list := make([]codec.Message, min(fillBatch, n-at))
		for i := range list {
			list[i] = a.message(at + i)
		}
		if _, err := w.AppendBatch(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// group is one from the head of a stream, with what its keys hold besides the log.
func (a *arena) group(address string) (*stream.Group, error) {
	return stream.NewGroup(a.client, stream.GroupConfig{Address: address, Name: groupName, Start: stream.Head()})
}

// counter is a handler that is done when it has seen n messages of the right size.
type counter struct {
	size int
	left atomic.Int64
	all  chan struct{}
}

func count(size, n int) *counter {
	c := &counter{size: size, all: make(chan struct{})}
	if c.left.Store(int64(n)); n == 0 {
		close(c.all)
	}
	return c
}

func (c *counter) handle(_ context.Context, d *consumer.Delivery) error { return c.saw(len(d.Data)) }

func (c *counter) saw(size int) error {
	if size != c.size {
		return consumer.Permanent(fmt.Errorf("bench: a message of %d bytes, sent were %d", size, c.size))
	}
	if c.left.Add(-1) == 0 {
		close(c.all)
	}
	return nil
}

// wait returns when all were seen, or what handles them has ended.
func (c *counter) wait(ctx context.Context, by *background) error {
	select {
	case <-c.all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-by.done:
		by.done = nil
		return errors.Join(fmt.Errorf("bench: the consumer has ended, %d messages are left", c.left.Load()), err)
	}
}

// settled waits until nothing is left of what has been handled. A consumer that is told to stop waits for its last read first, which
// has nothing to do with how fast it was: so the server is asked, which costs it little for the millisecond or two.
func settled(ctx context.Context, left func(context.Context) (int64, error)) error {
	return none(ctx, "what was handled is not settled", left)
}

// none waits until nothing is left, late at most.
func none(ctx context.Context, what string, left func(context.Context) (int64, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, late, fmt.Errorf("bench: %s after %s", what, late))
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		n, err := left(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pending says how many entries of a log its group has not settled.
func (a *arena) pending(log string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		reply, err := a.client.Do(ctx, log, a.client.B().Xpending().Key(log).Group(groupName).Build())
		if err != nil {
			return 0, err
		}
		summary, err := reply.ToArray()
		if err != nil || len(summary) == 0 {
			return 0, fmt.Errorf("bench: XPENDING answers %v: %w", reply, err)
		}
		return summary[0].AsInt64()
	}
}

// consumes is one consumer at full speed, from when it starts to when all is settled.
type consumes struct {
	*arena
	pack, n int
	log     string
	from    *stream.Group
	running *background
}

func (c *consumes) prepare(ctx context.Context, n int) (err error) {
	address := c.address()
	c.n, c.log = n, address.LogKey()
	if err := c.fillStream(ctx, address.String(), c.pack, n); err != nil {
		return err
	}
	if c.from, err = c.group(address.String()); err != nil {
		return err
	}
	return c.from.Create(ctx)
}

func (c *consumes) run(ctx context.Context) error {
	seen := count(c.size, c.n)
	co, err := consumer.New(consumer.Group(c.from), seen.handle, consumer.Config{Concurrency: c.concurrency(handlers)})
	if err != nil {
		return err
	}
	c.running = inBackground(ctx, co.Run)
	if err := seen.wait(ctx, c.running); err != nil {
		return err
	}
	return settled(ctx, c.pending(c.log))
}

func (c *consumes) keys() []string { return []string{c.log} }

func (c *consumes) clean(ctx context.Context) error {
	return errors.Join(c.running.end(), c.delete(ctx, c.log))
}

// both publishes and consumes at the same time.
type both struct {
	*arena
	pack, n int
	log     string
	to      *publisher
	seen    *counter
	running *background
}

func (b *both) prepare(ctx context.Context, n int) (err error) {
	address := b.address()
	b.n, b.log, b.seen = n, address.LogKey(), count(b.size, n)
	if b.to, err = b.publisher(ctx, stream.WriterConfig{Address: address.String(), Pack: b.pack}); err != nil {
		return err
	}
	b.running, err = b.consumer(ctx, address.String(), b.seen.handle)
	return err
}

// consumer is one of a new group, which reads already.
func (a *arena) consumer(ctx context.Context, address string, handle consumer.Handler) (*background, error) {
	g, err := a.group(address)
	if err != nil {
		return nil, err
	}
	co, err := consumer.New(consumer.Group(g), handle, consumer.Config{Concurrency: a.concurrency(handlers)})
	if err != nil {
		return nil, err
	}
	running := inBackground(ctx, co.Run)
	return running, running.ready(co.Ready())
}

func (b *both) run(ctx context.Context) error {
	if err := b.to.publishAll(ctx, b.message, b.n); err != nil {
		return err
	}
	if err := b.seen.wait(ctx, b.running); err != nil {
		return err
	}
	return settled(ctx, b.pending(b.log))
}

func (b *both) keys() []string { return []string{b.log} }

func (b *both) clean(ctx context.Context) error {
	err := errors.Join(b.running.end(), b.to.end())
	return errors.Join(err, b.delete(ctx, b.log))
}

// streamLatency is the time from Publish to the handler.
func streamLatency(ctx context.Context, a *arena, l *openLoop, pack int) (err error) {
	address := a.address()
	defer func() { err = errors.Join(err, a.delete(context.WithoutCancel(ctx), address.LogKey())) }()
	to, err := a.publisher(ctx, stream.WriterConfig{Address: address.String(), Pack: pack})
	defer func() { err = errors.Join(err, to.end()) }()
	if err != nil {
		return err
	}
	running, err := a.consumer(ctx, address.String(), func(_ context.Context, d *consumer.Delivery) error {
		l.arrivedWith(d.Data)
		return nil
	})
	defer func() { err = errors.Join(err, running.end()) }()
	if err != nil {
		return err
	}
	return a.loopInto(ctx, l, to)
}

// loopInto publishes the messages of a loop.
func (a *arena) loopInto(ctx context.Context, l *openLoop, to *publisher) error {
	return l.run(ctx, false, func(ctx context.Context, i int) error {
		m := a.message(i)
		m.Data = l.data(a, i)
		return to.Publish(ctx, m, nil)
	})
}

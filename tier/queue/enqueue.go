package queue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
)

const (
	maxBatch      = 4096    // jobs of one call
	maxBatchBytes = 8 << 20 // of one call
	shareJobs     = 500     // callers share a call up to this many jobs
	shareBytes    = 1 << 20 // and this many bytes
	callsTTL      = 10 * time.Minute
)

// producer numbers calls that go one after another, so that the server knows one that it has had already.
type producer struct {
	name   string
	number uint64 // of its last call
}

func newProducer() *producer {
	var id [12]byte
	rand.Read(id[:])
	return &producer{name: hex.EncodeToString(id[:])}
}

// slot is what has one call under way at most.
type slot struct {
	producer *producer
	line     *tier.Line
	args     []string // memory
}

// batch is what one call enqueues: the jobs of one caller or of several.
type batch struct {
	jobs    []encoded
	bytes   int
	waiters int
	orphan  chan struct{} // it is to be sent again, by whoever waits for it
	done    chan struct{}

	// Of whoever sends it.
	as      producer // of the call, once it was sent
	since   time.Time
	unknown bool // a sending ended without a reply

	// Set before done is closed.
	outcomes map[int]outcome
	err      error
}

func (b *batch) fits(jobs []encoded, bytes int) bool {
	return b.since.IsZero() && len(b.jobs)+len(jobs) <= shareJobs && b.bytes+bytes <= shareBytes
}

// send enqueues jobs in one call, together with those of others who wait: the outcomes of the batch from offset on are theirs.
func (c *Client) send(ctx context.Context, jobs []encoded) (b *batch, offset int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, c.notSent(err)
	}
	b, offset = c.join(jobs)
	return b, offset, c.wait(ctx, b, offset == 0)
}

func (c *Client) join(jobs []encoded) (b *batch, offset int) {
	bytes := 0
	for i := range jobs {
		bytes += jobs[i].bytes()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.open); n > 0 && c.open[n-1].fits(jobs, bytes) {
		b = c.open[n-1]
	} else {
		b = &batch{orphan: make(chan struct{}, 1), done: make(chan struct{})}
		c.open = append(c.open, b)
	}
	offset = len(b.jobs)
	b.jobs = append(b.jobs, jobs...)
	b.bytes += bytes
	b.waiters++
	return b, offset
}

// wait waits for the batch. Who began it, or else who is told to, sends what is open when a slot is free, until it is under way.
func (c *Client) wait(ctx context.Context, b *batch, began bool) error {
	for sends := began; ; sends = true {
		if sends {
			select {
			case <-b.done:
				return b.err
			case <-ctx.Done():
				return c.abandon(ctx, b)
			case s := <-c.slots:
				runtime.Gosched() // callers who were answered just now, or come at the same time, share the call
				for first := c.next(ctx, b); first != nil; first = c.next(ctx, b) {
					s.producer = c.serve(ctx, s, first)
				}
				c.slots <- s
			}
			if ctx.Err() != nil {
				return c.abandon(ctx, b)
			}
		}
		select {
		case <-b.done:
			return b.err
		case <-ctx.Done():
			return c.abandon(ctx, b)
		case <-b.orphan:
		}
	}
}

// next takes the first open batch, when this one is among them and ctx has not ended.
func (c *Client) next(ctx context.Context, b *batch) *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || !slices.Contains(c.open, b) {
		return nil
	}
	first := c.open[0]
	c.open = c.open[1:]
	return first
}

// serve sends a batch until it is answered, or until ctx ends: then it is open again. It returns the producer for the next one.
func (c *Client) serve(ctx context.Context, s *slot, b *batch) *producer {
	p := s.producer
	if b.since.IsZero() {
		p.number++
		b.as, b.since = *p, time.Now()
	}
	for try := 1; ; try++ {
		outcomes, err := c.call(ctx, s, b)
		if b.as.number > 1 { // a producer's first call asks for rights before it writes
			err = tier.Partly("enqueue", c.queue.JobsKey(), err)
		}
		b.unknown = b.unknown || tier.OutcomeUnknown(err)
		switch {
		case err == nil:
			b.finish(outcomes, nil)
			return p.after(b, true)
		case errors.Is(err, errNewProducer) && !b.unknown: // it was idle for long, or the server has lost it
			p = newProducer()
			p.number++
			b.as = *p
			continue
		case !repeatable(err):
			b.finish(nil, b.giveUp(err))
			return p.after(b, false)
		}
		if ctx.Err() != nil {
			c.reopen(b)
			return p.after(b, false)
		}
		if time.Since(b.since) > c.cfg.RetryFor {
			b.finish(nil, b.giveUp(err))
			return p.after(b, false)
		}
		if try == 1 {
			c.client.Logger().Warn("enqueue failed, it is sent again", "queue", string(c.queue), "err", err)
		}
		tier.Pause(ctx, tier.CallDelay(try))
	}
}

// after is the producer of the next call: a new one unless this one's last is known to have been taken.
func (p *producer) after(b *batch, taken bool) *producer {
	if b.as.name != p.name || taken && b.as.number == p.number {
		return p
	}
	return newProducer()
}

// reopen leaves a batch to those who still wait for it, if anybody does.
func (c *Client) reopen(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.waiters == 0 {
		return
	}
	c.open = slices.Insert(c.open, 0, b)
	b.tell()
}

// tell lets one of those who wait look after the batch. The caller holds mu.
func (b *batch) tell() {
	select {
	case b.orphan <- struct{}{}:
	default:
	}
}

// repeatable: the server may be ready later, or the caller who stopped waiting was not the only one. A full server is the
// callers' to know at once.
func repeatable(err error) bool {
	class := tier.Classify(err)
	if class == tier.ErrCancelled {
		return true
	}
	return class != nil && class.Reaction == tier.BackOff && class != tier.ErrStoreFull && class != tier.ErrMisconf
}

// giveUp is the error that the callers get: of unknown outcome, if any sending was.
func (b *batch) giveUp(err error) error {
	if b.unknown && !tier.OutcomeUnknown(err) {
		return &tier.Error{Op: "enqueue", Class: tier.ErrTimeout, Err: err}
	}
	return err
}

func (b *batch) finish(outcomes map[int]outcome, err error) {
	b.outcomes, b.err = outcomes, err
	close(b.done)
}

// abandon stops waiting. A batch that nobody waits for is not sent, or not again.
func (c *Client) abandon(ctx context.Context, b *batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-b.done:
		return b.err
	default:
	}
	b.waiters--
	if i := slices.Index(c.open, b); i >= 0 && b.waiters > 0 {
		b.tell()
	} else if i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
		if b.since.IsZero() {
			return c.notSent(context.Cause(ctx))
		}
	}
	return &tier.Error{Op: "enqueue", Key: c.queue.JobsKey(), Class: tier.ErrCancelled, Err: context.Cause(ctx)}
}

func (c *Client) notSent(err error) error {
	return fmt.Errorf("queue: enqueue to %s: not sent: %w", c.queue, err)
}

// call makes the call and reads what it came to: only what was not enqueued is told.
func (c *Client) call(ctx context.Context, s *slot, b *batch) (map[int]outcome, error) {
	keys := append([]string{c.queue.CallsKey(b.as.name)}, c.keys...)
	lanes, numbers := []string{}, map[string]string{}
	width := 2
	for i := range b.jobs {
		j := &b.jobs[i]
		for _, lane := range []string{j.also, j.lane} {
			if lane != "" && numbers[lane] == "" {
				keys, lanes = append(keys, c.queue.LaneKey(lane)), append(lanes, lane)
				numbers[lane] = strconv.Itoa(len(lanes))
			}
		}
		width = max(width, j.width(numbers[j.lane] == "1"))
	}
	args := append(s.args[:0], strconv.FormatUint(b.as.number, 10), millis(callsTTL), strconv.Itoa(len(lanes)), strconv.Itoa(width))
	args = append(args, lanes...)
	for i := range b.jobs {
		j := &b.jobs[i]
		words := [...]string{j.id.String(), j.message, numbers[j.lane], j.options, j.due, j.unique, j.policy}
		args = append(args, words[:width]...)
	}
	reply, err := s.line.Texts(ctx, tier.Call{Script: enqueueScript, Keys: keys, Args: args}, 2)
	clear(args)
	s.args = args
	switch {
	case err != nil:
		return nil, err
	case reply[0] == "unknown":
		return nil, errNewProducer
	}
	return outcomesOf(reply[1])
}

var errNewProducer = &tier.Error{Op: "enqueue", Class: tier.ErrServer, Err: errors.New("the server has lost its record of the calls before this one")}

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/tier"
)

const (
	// outboxPage is how many entries are delivered at a time. Few: each may weigh megabytes.
	outboxPage = 64
	// forwardFor bounds deliveries: who was halted for longer since it read an entry leaves it, and nobody delivers for others for ever.
	forwardFor = 5 * time.Second
	// strandedFor is how long an entry is left to who has read it. More than forwardFor: nobody delivers it any more then.
	strandedFor = 15 * time.Second
	// sweepEvery is the pause between two looks of a member for what is stranded.
	sweepEvery = 2 * beat
	// partTTL is how long a queue remembers that it was sent a part of a flow, if nobody says that it will not be sent again.
	partTTL = 7 * 24 * time.Hour
)

// Forward delivers what the outbox of the queue holds: how jobs of flows have ended, to their parents, and parts of flows that
// are of other queues, to these; and what comes of that. The workers of the queue do so as jobs end, and every few seconds;
// the method is for a queue that has none. What cannot be delivered stays, and is the error.
func (c *Client) Forward(ctx context.Context) error {
	var failed []error
	for from := strandedFirst; from != "" && ctx.Err() == nil; {
		next, err := forward(ctx, c.client, c.queue, from)
		failed, from = append(failed, err), next
	}
	_, err := forward(ctx, c.client, c.queue, "")
	return errors.Join(append(failed, err)...)
}

// strandedFirst is where looks for what is stranded begin.
const strandedFirst = "0-0"

// forward delivers what is new in the outbox of a queue, or, from an entry on, a page of what is stranded: read, and not delivered, by
// others; then what comes of that, here and in other queues. Each entry is delivered once at least, and has its effect once. Next is
// where more may be stranded, behind what cannot be delivered, too; "": nowhere.
func forward(ctx context.Context, client *tier.Client, first tier.Queue, from string) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardFor)
	defer cancel()
	var failed []error
	for open := []tier.Queue{first}; len(open) > 0 && ctx.Err() == nil; from = "" {
		d := delivery{client: client, queue: open[0], notes: map[tier.Queue][]note{}, left: map[string]bool{}}
		if err := d.page(ctx, from); err != nil {
			failed = append(failed, err)
		}
		if from != "" {
			next = d.next
		}
		if open = open[1:]; d.full {
			d.news = append(d.news, d.queue)
		}
		for _, q := range d.news {
			if !slices.Contains(open, q) {
				open = append(open, q)
			}
		}
	}
	return next, errors.Join(failed...)
}

// note is how a child ended, for its parent; without a child, that the parent is no more, perhaps.
type note struct {
	entry   string // of the outbox
	parent  string
	child   string
	outcome ChildOutcome
	text    string
}

// delivery is a page of an outbox.
type delivery struct {
	client *tier.Client
	queue  tier.Queue
	full   bool   // there may be more
	next   string // from where more may be stranded; "": none
	notes  map[tier.Queue][]note
	parts  []string        // keys of those that were sent
	left   map[string]bool // entries that could not be delivered
	news   []tier.Queue    // whose outboxes have more now
}

// page delivers a page of what is stranded, from an entry on, or "", of what is new.
func (d *delivery) page(ctx context.Context, from string) error {
	entries, err := d.read(ctx, from)
	if tier.Classify(err) == tier.ErrNoGroup {
		return nil // nothing was ever told
	}
	if err != nil || len(entries) == 0 {
		return err
	}
	d.full = len(entries) == outboxPage && from == ""
	var failed []error
	leave := func(entry string, err error) {
		d.left[entry] = true
		failed = append(failed, fmt.Errorf("queue: %s %s: %w", d.queue.OutboxKey(), entry, err))
	}
	for _, e := range entries {
		if err := d.sort(ctx, e); err != nil {
			leave(e.ID, err)
		}
	}
	for q, notes := range d.notes {
		if err := d.tell(ctx, q, notes); err != nil {
			for _, n := range notes {
				leave(n.entry, err)
			}
		}
	}
	return errors.Join(append(failed, d.delete(ctx, entries))...)
}

func (d *delivery) read(ctx context.Context, from string) ([]rueidis.XRangeEntry, error) {
	key, b := d.queue.OutboxKey(), d.client.B()
	if from != "" {
		m, err := d.client.Do(ctx, key, b.Xautoclaim().Key(key).Group(group).Consumer(forwarder).MinIdleTime(millis(strandedFor)).Start(from).Count(outboxPage).Build())
		if err != nil {
			return nil, err
		}
		parts, err := m.ToArray()
		if err != nil || len(parts) < 2 {
			return nil, fmt.Errorf("queue: XAUTOCLAIM %s: unexpected reply: %w", key, err)
		}
		if d.next, err = parts[0].ToString(); err != nil || d.next == strandedFirst {
			d.next = ""
		}
		return parts[1].AsXRange()
	}
	m, err := d.client.Do(ctx, key, b.Xreadgroup().Group(group, forwarder).Count(outboxPage).Streams().Key(key).Id(">").Build())
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	logs, err := m.AsXRead()
	return logs[key], err
}

// forwarder is who reads outboxes: all are one consumer.
const forwarder = "w"

// sort sends a part of a flow; how a job ended is a note for its parent.
func (d *delivery) sort(ctx context.Context, e rueidis.XRangeEntry) error {
	if text, ok := e.FieldValues[outboxPart]; ok {
		var part flowPart
		if err := msgpack.Unmarshal([]byte(text), &part); err != nil {
			return err
		}
		return d.send(ctx, e.ID, &part)
	}
	kin, err := parseFamily(e.FieldValues[outboxFamily])
	if err != nil {
		return err
	}
	n := note{entry: e.ID, child: e.FieldValues[outboxJob], outcome: ChildOutcome(e.FieldValues[outboxOutcome]), text: e.FieldValues[outboxText]}
	if kin.parent {
		d.notes[d.queue] = append(d.notes[d.queue], note{entry: e.ID, parent: n.child})
	}
	if kin.job != "" {
		n.parent = kin.job
		d.notes[tier.Queue(kin.queue)] = append(d.notes[tier.Queue(kin.queue)], n)
	}
	return nil
}

// Fields of an entry of an outbox: how a job of a flow ended, or a part of a flow.
const (
	outboxJob     = "j"
	outboxFamily  = "p"
	outboxOutcome = "e"
	outboxText    = "t"
	outboxPart    = "f" // its queue is in q
)

func (d *delivery) send(ctx context.Context, entry string, part *flowPart) error {
	for _, name := range []string{part.Node.Queue, part.ParentQueue} {
		if err := tier.CheckName("scope", name); err != nil {
			return err
		}
	}
	there, err := part.enqueue(ctx, d.client, partTTL)
	if err != nil {
		return err
	}
	q := tier.Queue(part.Node.Queue)
	if there != "" {
		d.notes[d.queue] = append(d.notes[d.queue], note{
			entry: entry, parent: part.Parent, child: part.Node.ID, outcome: ChildRemoved, text: "there is a job " + there + " already",
		})
		return nil
	}
	d.parts, d.news = append(d.parts, q.CallsKey(part.Node.ID)), append(d.news, q)
	return nil
}

// tell notes in a queue how children of its jobs ended.
func (d *delivery) tell(ctx context.Context, q tier.Queue, notes []note) error {
	keys := []string{q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.BuriedKey(), q.WaitingKey(), q.OutboxKey(), q.WorkersKey(), q.WakeKey(), q.QueueKey(), q.Events().LogKey()}
	fixed, numbers, args := len(keys), map[string]int{}, []string(nil)
	for _, n := range notes {
		if numbers[n.parent] == 0 {
			keys = append(keys, q.ChildrenKey(n.parent), q.ResultKey(n.parent))
			numbers[n.parent] = (len(keys) - fixed) / 2
		}
		args = append(args, strconv.Itoa(numbers[n.parent]), n.parent, n.child, string(n.outcome), n.text)
	}
	m, err := d.client.Run(ctx, tier.Call{Script: noteScript, Keys: keys, Args: args})
	if err != nil {
		return err
	}
	reply, err := tier.Parts("note", m, 2)
	if err != nil {
		return err
	}
	if failed, err := reply[1].AsInt64(); err != nil || failed > 0 {
		d.news = append(d.news, q)
		return err
	}
	return nil
}

// delete deletes what was delivered.
func (d *delivery) delete(ctx context.Context, entries []rueidis.XRangeEntry) error {
	var ids []string
	for _, e := range entries {
		if !d.left[e.ID] {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	key, b := d.queue.OutboxKey(), d.client.B()
	// In this order: what is acknowledged and not deleted, nobody would find again.
	_, err := d.client.DoMulti(ctx, key, b.Xdel().Key(key).Id(ids...).Build(), b.Xack().Key(key).Group(group).Id(ids...).Build())
	if err != nil {
		return err
	}
	for _, calls := range d.parts { // they will not be sent again, but by who has read them already
		if _, err := d.client.Do(ctx, calls, d.client.B().Pexpire().Key(calls).Milliseconds(callsTTL.Milliseconds()).Build()); err != nil {
			return err
		}
	}
	return nil
}

// forward delivers what a call has told the outbox. What fails is left to the workers.
func (c *Client) forward(ctx context.Context) {
	if _, err := forward(ctx, c.client, c.queue, ""); err != nil {
		c.client.Logger().Warn("what is to be told of flows is delivered later", "queue", string(c.queue), "err", err)
	}
}

// forward delivers what the member's jobs have told the outbox. What fails is left to sweeps, and so is all until one of them
// has not failed: jobs of flows must not wait for a queue that is away.
func (m *Member) forward(ctx context.Context) {
	m.mu.Lock()
	behind := m.behind
	m.mu.Unlock()
	if !behind {
		_, err := forward(ctx, m.workers.client, m.workers.queue, "")
		m.forwarded(err)
	}
}

// sweep delivers what others have left in the outbox, if the last sweep is a while ago.
func (m *Member) sweep(ctx context.Context) {
	m.mu.Lock()
	now := time.Now()
	early, from := now.Sub(m.swept) < sweepEvery, cmp.Or(m.strand, strandedFirst)
	if !early {
		m.swept = now
	}
	m.mu.Unlock()
	if !early {
		client, q := m.workers.client, m.workers.queue
		next, err1 := forward(ctx, client, q, from)
		_, err2 := forward(ctx, client, q, "")
		m.mu.Lock()
		m.strand = next
		m.mu.Unlock()
		m.forwarded(errors.Join(err1, err2))
	}
}

func (m *Member) forwarded(err error) {
	m.mu.Lock()
	m.behind = err != nil
	m.mu.Unlock()
	if err != nil {
		m.workers.client.Logger().Warn("what is to be told of flows is delivered later", "queue", m.workers.Queue(), "err", err)
	}
}

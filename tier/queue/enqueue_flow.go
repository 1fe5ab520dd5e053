package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// EnqueueFlow enqueues a flow, its first job in the client's queue, and returns the id of that. What is of this queue is there
// in one step, or nothing of it; a parent is there, and counts its children, before any of them. What is of other queues follows
// at once, or, when that fails, by the workers of this queue.
//
// Enqueueing the same flow again, within ten minutes, does nothing: that is how a call of unknown outcome is repeated.
//
// Errors: those of [Client.Enqueue]; ErrDuplicate, when there is one of the jobs of this queue: then nothing was done. Of another
// queue, the one that cannot be enqueued for that ends as removed. *FlowDepthError, *FlowSizeError, *FlowCycleError and
// *TooLargeError (all of a flow may weigh 8 MiB): nothing was sent.
func (c *Client) EnqueueFlow(ctx context.Context, f *Flow) (codec.ID, error) {
	s := survey{seen: map[*Flow]bool{}, ids: map[codec.ID]bool{}}
	first, err := s.visit(f, string(c.queue), 1)
	if err != nil {
		return codec.ID{}, err
	}
	if first.Queue != string(c.queue) {
		return codec.ID{}, fmt.Errorf("%w: the first job of the flow is of queue %s, and the client of %s", ErrBadCall, first.Queue, c.queue)
	}
	if err := c.identify(ctx, s.flows); err != nil {
		return codec.ID{}, err
	}
	rest := s.flows
	first.name(&rest)
	return f.ID, c.sendFlow(ctx, &first)
}

// identify gives ids to the jobs that have none.
func (c *Client) identify(ctx context.Context, flows []*Flow) error {
	missing := 0
	for _, f := range flows {
		if f.ID.IsZero() {
			missing++
		}
	}
	ids := make([]codec.ID, missing)
	if err := c.mint.next(ctx, ids); err != nil {
		return err
	}
	for _, f := range flows {
		if f.ID.IsZero() {
			f.ID, ids = ids[0], ids[1:]
		}
	}
	return nil
}

// name takes the ids of a node and those below it from the list.
func (n *flowNode) name(flows *[]*Flow) {
	n.ID, *flows = (*flows)[0].ID.String(), (*flows)[1:]
	for i := range n.Children {
		n.Children[i].name(flows)
	}
}

// sendFlow sends the flow until it is answered.
func (c *Client) sendFlow(ctx context.Context, first *flowNode) error {
	part := flowPart{Node: *first}
	since, unknown := time.Now(), false
	for try := 1; ; try++ {
		there, err := part.enqueue(ctx, c.client, callsTTL)
		switch {
		case err == nil && there != "":
			return fmt.Errorf("%w (%s in %s)", ErrDuplicate, there, c.queue)
		case err == nil && !first.spreads():
			return nil
		case err == nil:
			c.forward(ctx)
			return nil
		}
		unknown = unknown || tier.OutcomeUnknown(err)
		if !repeatable(err) || ctx.Err() != nil || time.Since(since) > c.cfg.RetryFor {
			return (&batch{unknown: unknown}).giveUp(err)
		}
		tier.Pause(ctx, tier.CallDelay(try))
	}
}

// spreads: some of the flow is of other queues.
func (n *flowNode) spreads() bool {
	return slices.ContainsFunc(n.Children, func(c flowNode) bool { return c.Queue != n.Queue || c.spreads() })
}

// flowPart is a job with all below it, whose parent is in another queue, or who has none.
type flowPart struct {
	_msgpack struct{} `msgpack:",as_array"` //lint:ignore U1000 the library looks for it by reflection

	Node        flowNode
	ParentQueue string
	Parent      string
}

// enqueue makes the call, and answers which job is there already: then nothing was done.
func (p *flowPart) enqueue(ctx context.Context, client *tier.Client, ttl time.Duration) (there string, err error) {
	q := tier.Queue(p.Node.Queue)
	s := flowCall{queue: q}
	if err := s.add(&p.Node, p.ParentQueue, p.Parent); err != nil {
		return "", err
	}
	keys := []string{
		q.CallsKey(p.Node.ID), q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.WaitingKey(), q.OutboxKey(), q.WorkersKey(), q.WakeKey(),
		q.QueueKey(), q.Events().LogKey(),
	}
	args := append([]string{millis(ttl), strconv.Itoa(s.count)}, s.jobs...)
	m, err := client.Run(ctx, tier.Call{Script: flowScript, Keys: append(keys, s.keys...), Args: append(args, s.parts...)})
	if err != nil {
		return "", err
	}
	answer, err := m.ToString()
	if answer == "ok" || answer == "dup" {
		answer = ""
	}
	return answer, err
}

// flowCall is what is sent of a flow to one queue.
type flowCall struct {
	queue tier.Queue
	count int
	jobs  []string // arguments of the jobs of this queue
	keys  []string // of the children of those that have some
	parts []string // queue and part, of those of others
}

func (s *flowCall) add(n *flowNode, parentQueue, parent string) error {
	kin := family{parent: len(n.Children) > 0, queue: parentQueue, job: parent}
	s.count++
	s.jobs = append(s.jobs, n.ID, n.Lane, n.Due, n.Message, n.Options, kin.text(), strconv.Itoa(len(n.Children)))
	for i := range n.Children {
		c := &n.Children[i]
		s.jobs = append(s.jobs, c.ID, c.Queue+" "+c.Policy)
	}
	if kin.parent {
		s.keys = append(s.keys, s.queue.ChildrenKey(n.ID))
	}
	for i := range n.Children {
		c := &n.Children[i]
		if c.Queue == string(s.queue) {
			if err := s.add(c, string(s.queue), n.ID); err != nil {
				return err
			}
			continue
		}
		part, err := msgpack.Marshal(&flowPart{Node: *c, ParentQueue: string(s.queue), Parent: n.ID})
		if err != nil {
			return err
		}
		s.parts = append(s.parts, c.Queue, string(part))
	}
	return nil
}

// family is what a job of a flow holds of it: whether it has children, and its parent's queue and id, if it has one. Of a job
// of no flow it is empty.
type family struct {
	parent     bool
	queue, job string
}

// text is '<1 | 0> <queue> <job>', '- -' for no parent; empty for a job of no flow.
func (f family) text() string {
	switch {
	case f.job == "" && !f.parent:
		return ""
	case f.job == "":
		return "1 - -"
	case f.parent:
		return "1 " + f.queue + " " + f.job
	}
	return "0 " + f.queue + " " + f.job
}

var errFamily = errors.New("is no family")

func parseFamily(text string) (f family, err error) {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[0] != "0" && words[0] != "1" {
		return f, fmt.Errorf("queue: %.64q %w", text, errFamily)
	}
	f.parent = words[0] == "1"
	if words[2] == "-" {
		return f, nil
	}
	f.queue, f.job = words[1], words[2]
	if _, err := codec.Parse(f.job); err != nil {
		return f, fmt.Errorf("queue: %.64q %w: %w", text, errFamily, err)
	}
	return f, tier.CheckName("scope", f.queue)
}

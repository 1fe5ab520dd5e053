package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/echomq/pipeline/tier"
)

// maxEvents is how many entries the events of a queue may keep.
const maxEvents = 100_000_000

// eventsBrand is that of the events' stream, if no other stream of the scope has it.
const eventsBrand = "JEV"

// DeclareEvents lets the queue tell what becomes of its jobs, from now on: each call of a script that changes jobs appends one
// message to the stream "<queue>/jobs.events", which any reader of streams reads and [DecodeEvents] decodes. About the given
// number of messages is kept, which may tell of 4096 jobs each, some 20 bytes a job; 0: nothing is told any more, and what was stays.
// It can be repeated; a program does when it starts.
//
// Errors: ErrBadCall, also of a scope with partitions; *tier.NodeConflictError; tier.ErrStoreFull.
func (c *Client) DeclareEvents(ctx context.Context, keep int) error {
	key, addr := c.queue.QueueKey(), c.queue.Events()
	switch {
	case keep < 0 || keep > maxEvents:
		return fmt.Errorf("%w: events of %s: %d entries, want 0 to %d", ErrBadCall, c.queue, keep, maxEvents)
	case keep == 0:
		_, err := c.client.Do(ctx, key, c.client.B().Hdel().Key(key).Field(tier.EventsField).Build())
		return err
	}
	node, err := c.client.ScopeNode(ctx, addr.Scope)
	if err != nil {
		return err
	}
	m, err := c.client.Run(ctx, tier.Call{
		Script: declareEventsScript,
		Keys:   []string{key, tier.ScopeKey(addr.Scope), addr.LogKey()},
		Args:   []string{strconv.Itoa(node), addr.Stream, strconv.Itoa(keep), eventsBrand},
	})
	if err != nil {
		return err
	}
	reply, err := tier.Texts("declare_events", m, 2)
	if err != nil {
		return err
	}
	switch reply[0] {
	case "ok":
		return nil
	case "node":
		return &tier.NodeConflictError{Scope: addr.Scope, Number: node, Registered: reply[1]}
	case "partitioned":
		return fmt.Errorf("%w: events of %s: its scope has partitions, or is one", ErrBadCall, c.queue)
	case "kind":
		return fmt.Errorf("%w: events of %s: the stream %s is declared as %.64q: remove it first", ErrBadCall, c.queue, addr, reply[1])
	}
	return fmt.Errorf("%w: events of %s: its scope has no brand left", ErrBadCall, c.queue)
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

var (
	// ErrActive says that a worker has the job.
	ErrActive = errors.New("queue: a worker has the job: cancel it, or wait until it has ended")
	// ErrNotPaused refuses to obliterate a queue that is not paused.
	ErrNotPaused = errors.New("queue: the queue is not paused: pause it first, and wait until nothing is active")
)

// Pause lets the queue hand out nothing more until Resume: its workers claim nothing, take nothing over, and what is due stays
// where it is. What they hold they finish. It outlives every process. Pausing again changes nothing.
func (c *Client) Pause(ctx context.Context) error {
	_, err := c.run(ctx, pauseQueueScript, []string{c.queue.QueueKey()})
	return err
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context) error {
	_, err := c.run(ctx, resumeQueueScript, []string{c.queue.QueueKey(), c.queue.WorkersKey(), c.queue.WakeKey()})
	return err
}

// Remove removes a job that nobody has, with its unique key, its notes and its result.
//
// Errors: ErrNoJob; ErrActive.
func (c *Client) Remove(ctx context.Context, id codec.ID) error {
	_, err := c.remove(ctx, id, "")
	return err
}

// Cancel removes a job that nobody has. The worker of an active one is told at once, on a channel, and if it does not hear that, with its
// next renewal, within a third of the lease: the context of its handler ends, and when that returns an error, the job is dead with the
// reason. Running says that it is active, and that its worker is to be told. The error is ErrNoJob.
func (c *Client) Cancel(ctx context.Context, id codec.ID, reason string) (running bool, err error) {
	if reason == "" {
		reason = "no reason given"
	}
	return c.remove(ctx, id, reason)
}

func (c *Client) remove(ctx context.Context, id codec.ID, reason string) (running bool, err error) {
	q := c.queue
	what, err := c.inItsLane(ctx, id, func(lane string) tier.Call {
		keys := []string{
			q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.BuriedKey(), q.UniqueKey(), q.CancelledKey(), q.ResultKey(id.String()), q.WaitingKey(), q.OutboxKey(), q.NotesKey(), q.LaneKey(lane),
			q.QueueKey(), q.Events().LogKey(), q.CancelChannel(),
		}
		return tier.Call{Script: removeScript, Keys: keys, Args: []string{id.String(), lane, reason}}
	})
	if err != nil || what == "told" {
		return err == nil || errors.Is(err, ErrActive), err
	}
	c.forward(ctx)
	return false, nil
}

// inItsLane makes a call about a job that has to declare the job's lane, which the server knows. Errors: ErrNoJob; ErrActive.
func (c *Client) inItsLane(ctx context.Context, id codec.ID, call func(lane string) tier.Call) (what string, err error) {
	what, err = itsLane(func(lane string) (string, error) {
		m, err := c.client.Run(ctx, call(lane))
		if err != nil {
			return "", err
		}
		return m.ToString()
	})
	switch {
	case err != nil:
		return "", err
	case what == "gone":
		return "", c.noJob(id)
	case what == "active":
		return "", fmt.Errorf("%w (%s)", ErrActive, id)
	}
	return what, nil
}

// itsLane does what answers "?" and the lane of the job when it was another one.
func itsLane(do func(lane string) (string, error)) (what string, err error) {
	for lane := DefaultLane; ; {
		if what, err = do(lane); err != nil {
			return "", err
		}
		other, elsewhere := strings.CutPrefix(what, "?")
		if !elsewhere {
			return what, nil
		}
		if err := tier.CheckName("lane", other); err != nil {
			return "", err
		}
		lane = other
	}
}

// Retry takes dead jobs up again, at most 4096, with all their attempts before them, and tells which were dead.
func (c *Client) Retry(ctx context.Context, ids ...codec.ID) (retried []codec.ID, err error) {
	if err := bounded(len(ids)); err != nil || len(ids) == 0 {
		return nil, err
	}
	q := c.queue
	keys, args := []string{q.JobsKey(), q.JobsDueKey(), q.BuriedKey(), q.WorkersKey(), q.WakeKey(), q.QueueKey(), q.Events().LogKey()}, make([]string, len(ids))
	for i, id := range ids {
		keys, args[i] = append(keys, q.ResultKey(id.String())), id.String()
	}
	m, err := c.client.Run(ctx, tier.Call{Script: requeueScript, Keys: keys, Args: args})
	if err != nil {
		return nil, err
	}
	parts, err := tier.Parts("requeue", m, len(ids))
	if err != nil {
		return nil, err
	}
	for i := range parts {
		if n, err := parts[i].AsInt64(); err != nil {
			return retried, err
		} else if n == 1 {
			retried = append(retried, ids[i])
		}
	}
	return retried, nil
}

const (
	// obliteratePage is how many keys one call deletes.
	obliteratePage = 500
	// obliteratePasses is how often the keys are looked through, while jobs are enqueued between two calls: of such a one a part could
	// stay, or go.
	obliteratePasses = 10
)

// Obliterate deletes a paused queue, with all that it has, in steps: one that fails can be called again. The name of the queue
// confirms it. Jobs that are active then are gone under their workers. It returns how many keys are deleted; the error is
// ErrNotPaused.
func (c *Client) Obliterate(ctx context.Context, confirm string) (keys int, err error) {
	if confirm != string(c.queue) {
		return 0, fmt.Errorf("%w: obliterate %s: its name confirms it, and not %.64q", ErrBadCall, c.queue, confirm)
	}
	own, events := c.queue.QueueKey(), c.queue.Events().LogKey()
	if n, err := c.run(ctx, obliterateScript, []string{own, events}, "0"); err != nil || n < 0 {
		return 0, errors.Join(err, c.notPaused(n))
	}
	for pass := 1; ; pass++ {
		all, err := c.client.KeysBelow(ctx, strings.TrimSuffix(own, ":queue"))
		if err != nil {
			return keys, err
		}
		all = slices.DeleteFunc(all, func(key string) bool { return key == own || pass > 1 && key == c.queue.WorkersKey() }) // workers come back
		if len(all) == 0 {
			break
		}
		if pass > obliteratePasses {
			return keys, fmt.Errorf("queue: %s is being filled while it is obliterated: stop who enqueues, and obliterate it again", c.queue)
		}
		for page := range slices.Chunk(all, obliteratePage) {
			n, err := c.run(ctx, obliterateScript, append([]string{own, events}, page...), "0")
			if err != nil || n < 0 {
				return keys, errors.Join(err, c.notPaused(n))
			}
			keys += n
		}
	}
	n, err := c.run(ctx, obliterateScript, []string{own, events}, "1")
	return keys + max(0, n), err
}

func (c *Client) notPaused(n int) error {
	if n >= 0 {
		return nil
	}
	return fmt.Errorf("%w (%s)", ErrNotPaused, c.queue)
}

// run runs a script that answers a count.
func (c *Client) run(ctx context.Context, s *tier.Script, keys []string, args ...string) (int, error) {
	m, err := c.client.Run(ctx, tier.Call{Script: s, Keys: keys, Args: args})
	if err != nil {
		return 0, err
	}
	n, err := m.AsInt64()
	return int(n), err
}

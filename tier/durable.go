package tier

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Durability is who has to have a write before it counts. The zero value: the primary, in memory.
type Durability struct {
	Replicas int  // so many replicas, too
	Fsync    bool // on their disks: that of the primary, and of so many replicas
}

// RunDurable is RunMulti, and then waits until what the calls wrote is as durable as is asked, for at most wait and a third of
// CallTimeout. A call that finds its work done by an earlier one has to write something nevertheless: the server waits
// for what the connection wrote.
//
// The error, if any, is of class ErrNotReplicated or ErrNotSynced: what the results say has happened in the memory of the primary only,
// as far as is known. The wait is on a connection of its own, so that nobody else's calls stand behind it.
func (c *Client) RunDurable(ctx context.Context, d Durability, wait time.Duration, calls ...Call) ([]Result, error) {
	wait = min(wait, c.opts.CallTimeout/3) // with the source of a script that the server does not know, it is waited twice
	var failed error
	results := c.runMulti(ctx, calls, func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
		replies := c.block.DoMulti(ctx, append(cmds, d.wait(c.block, wait))...)
		last := len(replies) - 1
		if err := d.reached(replies[last], wait); err != nil {
			failed = err
		}
		return replies[:last]
	})
	switch {
	case failed == nil:
		return results, nil
	case d.Fsync:
		return results, &Error{Op: "WAITAOF", Key: calls[0].Keys[0], Class: ErrNotSynced, Err: failed}
	default:
		return results, &Error{Op: "WAIT", Key: calls[0].Keys[0], Class: ErrNotReplicated, Err: failed}
	}
}

// wait is the command that waits.
func (d Durability) wait(c rueidis.Client, most time.Duration) rueidis.Completed {
	if d.Fsync {
		return c.B().Waitaof().Numlocal(1).Numreplicas(int64(d.Replicas)).Timeout(most.Milliseconds()).Build()
	}
	return c.B().Wait().Numreplicas(int64(d.Replicas)).Timeout(most.Milliseconds()).Build()
}

// reached is nil when the reply to it says that enough have what was written.
func (d Durability) reached(reply rueidis.RedisResult, wait time.Duration) error {
	if !d.Fsync {
		have, err := reply.AsInt64()
		if err == nil && have < int64(d.Replicas) {
			err = fmt.Errorf("%d of %d replicas within %s", have, d.Replicas, wait)
		}
		return err
	}
	have, err := reply.AsIntSlice()
	if err == nil && (len(have) != 2 || have[0] < 1 || have[1] < int64(d.Replicas)) {
		err = fmt.Errorf("on the disks of %v within %s, wanted [1 %d], the primary and its replicas", have, wait, d.Replicas)
	}
	return err
}

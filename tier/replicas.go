package tier

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"
)

// RunReplicated is RunMulti, and then waits until n replicas have what the calls wrote, for at most wait and a third of
// CallTimeout. A call that finds its work done by an earlier one has to write something nevertheless: the server waits
// for what the connection wrote.
//
// The error, if any, is of class ErrNotReplicated: what the results say has happened on the primary only, as far as is
// known. The wait is on a connection of its own, so that nobody else's calls stand behind it.
func (c *Client) RunReplicated(ctx context.Context, n int, wait time.Duration, calls ...Call) ([]Result, error) {
	wait = min(wait, c.opts.CallTimeout/3) // with the source of a script that the server does not know, it is waited twice
	have, failed := int64(math.MaxInt64), error(nil)
	results := c.runMulti(ctx, calls, func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
		cmds = append(cmds, c.block.B().Wait().Numreplicas(int64(n)).Timeout(wait.Milliseconds()).Build())
		replies := c.block.DoMulti(ctx, cmds...)
		last := len(replies) - 1
		got, err := replies[last].AsInt64()
		if have = min(have, got); err != nil {
			failed = err
		}
		return replies[:last]
	})
	if failed == nil && have < int64(n) {
		failed = fmt.Errorf("%d of %d replicas within %s", have, n, wait)
	}
	if failed != nil {
		return results, &Error{Op: "WAIT", Key: calls[0].Keys[0], Class: ErrNotReplicated, Err: failed}
	}
	return results, nil
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

var (
	// ErrPending says that a job has not ended.
	ErrPending = errors.New("queue: the job has not ended")
	// ErrNoResult says that a job has ended, and that nothing is kept of what it came to.
	ErrNoResult = errors.New("queue: nothing is kept of what the job came to: its terms have to say Keep, for long enough")
)

// Outcome is what a job came to.
type Outcome struct {
	Done   bool   // else it is dead
	Result string // of one that is done: as its handler emitted it
	Reason string // of one that is dead
}

// waitEvery is how long one request waits for a result; it is how long the end of a context goes unnoticed.
const waitEvery = time.Second

// Result tells what a job came to, which is kept for as long as its terms say. The errors are ErrPending and ErrNoResult.
func (c *Client) Result(ctx context.Context, id codec.ID) (Outcome, error) {
	key, rows := c.queue.ResultKey(id.String()), c.queue.JobsKey()
	b := c.client.B()
	// The result comes before the row goes: so it is looked for after the row.
	results, err := c.client.DoMulti(ctx, key, b.Hexists().Key(rows).Field(id.String()).Build(), b.Lindex().Key(key).Index(0).Build())
	if err != nil {
		return Outcome{}, err
	}
	text, err := results[1].ToString()
	if err == nil {
		return outcomeOf(text)
	}
	if !rueidis.IsRedisNil(err) {
		return Outcome{}, tier.Wrap("LINDEX", key, err)
	}
	if is, err := results[0].AsBool(); err != nil || is {
		return Outcome{}, fmt.Errorf("%w (%s)", ErrPending, id)
	}
	return Outcome{}, fmt.Errorf("%w (%s)", ErrNoResult, id)
}

// Wait waits until a job has ended, and tells what it came to, which its terms have to keep. It holds a connection meanwhile;
// the server tells it.
//
// Errors: ErrNoResult; that of ctx.
func (c *Client) Wait(ctx context.Context, id codec.ID) (Outcome, error) {
	key := c.queue.ResultKey(id.String())
	for {
		o, err := c.Result(ctx, id)
		if !errors.Is(err, ErrPending) {
			return o, err
		}
		move := c.client.B().Blmove().Source(key).Destination(key).Left().Left().Timeout(waitEvery.Seconds()).Build()
		m, err := c.client.Wait(ctx, key, waitEvery, move) // into its own place, so that all who wait have it
		switch {
		case rueidis.IsRedisNil(err):
			continue
		case err != nil:
			return Outcome{}, err
		}
		text, err := m.ToString()
		if err != nil {
			return Outcome{}, err
		}
		return outcomeOf(text)
	}
}

func outcomeOf(text string) (Outcome, error) {
	switch what, about, _ := strings.Cut(text, " "); what {
	case "done":
		return Outcome{Done: true, Result: about}, nil
	case "dead":
		return Outcome{Reason: about}, nil
	}
	return Outcome{}, fmt.Errorf("queue: %.64q is no outcome", text)
}

package queue

import (
	"context"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Update gives a job that nobody has another message, type and all. One that is ready goes to the end of its lane; all others
// stay where they are.
//
// Errors: ErrNoJob; ErrActive; *TooLargeError, *codec.LimitError; tier.ErrStoreFull. It may be called again when its outcome is
// unknown.
func (c *Client) Update(ctx context.Context, id codec.ID, m codec.Message) error {
	message, err := encodeMessage(&m)
	if err != nil {
		return err
	}
	q := c.queue
	_, err = c.inItsLane(ctx, id, func(lane string) tier.Call {
		return tier.Call{Script: updateScript, Keys: []string{q.JobsKey(), q.BodiesKey(), q.LaneKey(lane), q.QueueKey(), q.Events().LogKey()}, Args: []string{id.String(), lane, message}}
	})
	return err
}

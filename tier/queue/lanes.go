package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Lane says how a lane has its turns.
type Lane struct {
	Weight  float64 // its part of the turns: with 3, three for each one of a lane with 1
	Ceiling int     // of its jobs that may be active at once; 0: none
	Rate    Rate
	Paused  time.Time // since when nothing of it is handed out; zero: it is not paused
}

// SetLane gives a lane weight, 0.001 to 1000, and ceiling; what is 0 stays as it is, and a ceiling below 0 is none.
func (c *Client) SetLane(ctx context.Context, lane string, weight float64, ceiling int) (Lane, error) {
	w, most := "", ""
	if weight != 0 {
		if !(weight >= 0.001 && weight <= 1000) {
			return Lane{}, fmt.Errorf("%w: lane %s: a weight of %g is not between 0.001 and 1000", ErrBadCall, lane, weight)
		}
		w = strconv.FormatFloat(weight, 'g', -1, 64)
	}
	if ceiling != 0 {
		most = strconv.Itoa(min(max(0, ceiling), math.MaxInt32))
	}
	return c.setLane(ctx, lane, w, most, "", "")
}

// Rate is how many jobs may begin in a time: so many at once, and then one whenever its part of the time has passed. The
// zero value is no limit.
type Rate struct {
	Jobs int
	Per  time.Duration // whole milliseconds, one or more
}

// row is the rate as scripts take it; '0' for none.
func (r Rate) row() (string, error) {
	if r == (Rate{}) {
		return "0", nil
	}
	if r.Jobs < 1 || r.Per < time.Millisecond || r.Per%time.Millisecond != 0 {
		return "", fmt.Errorf("%w: a rate is one job or more, in whole milliseconds, one or more", ErrBadCall)
	}
	return strconv.Itoa(r.Jobs) + " " + millis(r.Per), nil
}

// rateOf reads a row, cut into words; what cannot be read is none.
func rateOf(words []string) Rate {
	if len(words) < 2 {
		return Rate{}
	}
	jobs, _ := strconv.Atoi(words[0])
	ms, _ := strconv.ParseInt(words[1], 10, 64)
	return Rate{Jobs: jobs, Per: time.Duration(ms) * time.Millisecond}
}

// LimitLane limits how many jobs of a lane begin in a time. To limit what belongs together, as all jobs of a customer, give it
// a lane: lanes cost little.
func (c *Client) LimitLane(ctx context.Context, lane string, r Rate) (Lane, error) {
	row, err := r.row()
	if err != nil {
		return Lane{}, err
	}
	return c.setLane(ctx, lane, "", "", "", row)
}

// Limit limits how many jobs of the queue begin in a time, over all its workers.
func (c *Client) Limit(ctx context.Context, r Rate) error {
	row, err := r.row()
	if err != nil {
		return err
	}
	key := c.queue.QueueKey()
	cmd := c.client.B().Hset().Key(key).FieldValue().FieldValue(tier.RateField, row).Build()
	if row == "0" {
		cmd = c.client.B().Hdel().Key(key).Field(tier.RateField).Build()
	}
	_, err = c.client.Do(ctx, key, cmd)
	return err
}

// PauseLane lets nothing of a lane be handed out until ResumeLane.
func (c *Client) PauseLane(ctx context.Context, lane string) error {
	_, err := c.setLane(ctx, lane, "", "", "1", "")
	return err
}

// ResumeLane ends the pause of a lane.
func (c *Client) ResumeLane(ctx context.Context, lane string) error {
	_, err := c.setLane(ctx, lane, "", "", "0", "")
	return err
}

func (c *Client) setLane(ctx context.Context, lane, weight, ceiling, paused, rate string) (l Lane, err error) {
	if err := tier.CheckName("lane", lane); err != nil {
		return l, err
	}
	q := c.queue
	keys := []string{q.LanesKey(), q.RingKey(), q.WorkersKey(), q.WakeKey(), q.LaneKey(lane)}
	m, err := c.client.Run(ctx, tier.Call{Script: configureLaneScript, Keys: keys, Args: []string{lane, weight, ceiling, paused, rate}})
	if err != nil {
		return l, err
	}
	reply, err := tier.Texts("configure_lane", m, 4)
	if err != nil {
		return l, err
	}
	return laneOf(strings.Join(reply, " ")), nil
}

// drainPage is how many jobs one call drains.
const drainPage = 1000

// DrainLane removes the ready jobs of a lane, and returns how many. Active ones, and those whose time is to come, stay.
func (c *Client) DrainLane(ctx context.Context, lane string) (drained int, err error) {
	if err := tier.CheckName("lane", lane); err != nil {
		return 0, err
	}
	q := c.queue
	for {
		n, err := c.run(ctx, drainScript, []string{
			q.JobsKey(), q.UniqueKey(), q.OutboxKey(), q.NotesKey(), q.LaneKey(lane), q.QueueKey(), q.Events().LogKey(),
		}, lane, strconv.Itoa(drainPage))
		if err != nil || n == 0 {
			return drained, err
		}
		drained += n
		c.forward(ctx)
	}
}

// Drain removes the ready jobs of all lanes, paused ones too, and returns how many.
func (c *Client) Drain(ctx context.Context) (drained int, err error) {
	lanes, err := c.laneNames(ctx)
	if err != nil {
		return 0, err
	}
	for _, lane := range lanes {
		n, err := c.DrainLane(ctx, lane)
		if drained += n; err != nil {
			return drained, err
		}
	}
	return drained, nil
}

// Move moves a job that nobody has to the end of another lane, or into it for when its time comes.
//
// Errors: ErrNoJob; ErrActive.
func (c *Client) Move(ctx context.Context, id codec.ID, lane string) error {
	if err := tier.CheckName("lane", lane); err != nil {
		return err
	}
	q := c.queue
	_, err := c.inItsLane(ctx, id, func(from string) tier.Call {
		keys := []string{
			q.JobsKey(), q.RingKey(), q.LanesKey(), q.WorkersKey(), q.WakeKey(), q.LaneKey(from), q.LaneKey(lane), q.QueueKey(), q.Events().LogKey(),
		}
		return tier.Call{Script: moveScript, Keys: keys, Args: []string{id.String(), from, lane}}
	})
	return err
}

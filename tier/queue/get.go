package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Info is what is known of a job that is not done.
type Info struct {
	ID    codec.ID
	State State
	Lane  string
	// Attempts are the deliveries so far, this one included when it is active.
	Attempts int
	Worker   string        // of an active one
	Idle     time.Duration // of an active one: since it was given out, or its lease renewed
	At       time.Time     // when it is due, or died
	Reason   string        // why it failed last, of one outside a lane
	Message  codec.Message
	Err      error  // *codec.DecodeError: the message cannot be read
	Raw      []byte // the message as it is stored
}

// Get tells where a job is. The error is ErrNoJob when it is done, or never was.
func (c *Client) Get(ctx context.Context, id codec.ID) (Info, error) {
	for {
		info, moved, err := c.get(ctx, id)
		if err != nil || !moved {
			return info, err
		}
	}
}

// get looks once; moved says that the job went elsewhere meanwhile.
func (c *Client) get(ctx context.Context, id codec.ID) (info Info, moved bool, err error) {
	key := c.queue.JobsKey()
	m, err := c.client.Do(ctx, key, c.client.B().Hget().Key(key).Field(id.String()).Build())
	if rueidis.IsRedisNil(err) {
		return info, false, fmt.Errorf("%w (%s in %s)", ErrNoJob, id, c.queue)
	}
	if err != nil {
		return info, false, err
	}
	text, err := m.ToString()
	if err != nil {
		return info, false, err
	}
	at, ok := parseRow(text)
	if !ok {
		return info, false, fmt.Errorf("queue: %s holds %.64q of %s, which is no row", key, text, id)
	}
	info = Info{ID: id, State: at.state, Lane: at.lane, Attempts: at.attempts}
	if at.entry == "" {
		info.At = at.at
		return c.outside(ctx, info)
	}
	return c.inLane(ctx, info, at.entry)
}

// outside reads what a job holds that is in no lane.
func (c *Client) outside(ctx context.Context, info Info) (_ Info, moved bool, err error) {
	key := c.queue.BodiesKey()
	m, err := c.client.Do(ctx, key, c.client.B().Hget().Key(key).Field(info.ID.String()).Build())
	if rueidis.IsRedisNil(err) {
		return info, true, nil
	}
	if err != nil {
		return info, false, err
	}
	text, err := m.ToString()
	if err != nil {
		return info, false, err
	}
	err = info.readBody(text)
	return info, false, err
}

// inLane asks the pending list whether somebody has the job.
func (c *Client) inLane(ctx context.Context, info Info, entry string) (_ Info, moved bool, err error) {
	log := c.queue.LaneKey(info.Lane)
	results, err := c.client.DoMulti(ctx, log,
		c.client.B().Xrange().Key(log).Start(entry).End(entry).Build(),
		c.client.B().Xpending().Key(log).Group(group).Start(entry).End(entry).Count(1).Build())
	if tier.Classify(err) == tier.ErrNoGroup {
		return info, true, nil
	}
	if err != nil {
		return info, false, err
	}
	entries, err := results[0].AsXRangeSlices()
	if err != nil || len(entries) == 0 {
		return info, err == nil, err
	}
	info.readEntry(entries[0].FieldValues)
	pending, err := results[1].ToArray()
	if err != nil || len(pending) == 0 {
		return info, false, err
	}
	err = info.readPending(pending[0])
	return info, false, err
}

// group is that of every lane.
const group = "w"

// readBody reads what a job holds that is in no lane.
func (i *Info) readBody(text string) error {
	var body []string
	if err := msgpack.Unmarshal([]byte(text), &body); err != nil || len(body) < 5 {
		return fmt.Errorf("queue: the body of %s cannot be read: %w", i.ID, err)
	}
	i.read(body[0])
	i.Reason = body[4]
	return nil
}

// readEntry reads what a job holds that is in a lane.
func (i *Info) readEntry(fields []rueidis.XRangeFieldValue) {
	for _, f := range fields {
		switch f.Field {
		case codec.FieldMessage:
			i.read(f.Value)
		case fieldAttempts:
			i.Attempts, _ = strconv.Atoi(f.Value)
		}
	}
}

// readPending reads who has a job, after its entry.
func (i *Info) readPending(m rueidis.RedisMessage) error {
	row, err := tier.Parts("XPENDING", m, 4)
	if err != nil {
		return err
	}
	i.State = Active
	i.Worker, _ = row[1].ToString()
	idle, _ := row[2].AsInt64()
	i.Idle = time.Duration(idle) * time.Millisecond
	deliveries, _ := row[3].AsInt64()
	i.Attempts += int(deliveries)
	return nil
}

func (i *Info) read(message string) {
	i.Raw = []byte(message)
	_, i.Err = codec.DecodeMessage(i.Raw, &i.Message)
}

// Counts are the jobs of a queue by their states.
type Counts struct {
	Ready     int64
	Active    int64
	Scheduled int64 // and those to be tried again
	Waiting   int64 // for their children
	Dead      int64
}

// countLanes is how many lanes one call counts through.
const countLanes = 1000

// Counts counts the jobs. It is exact for queues with active jobs in up to a thousand lanes; beyond, jobs that move meanwhile
// may be counted twice or not.
func (c *Client) Counts(ctx context.Context) (Counts, error) {
	total, others, err := c.count(ctx, nil)
	if err != nil || len(others) == 0 {
		return total, err
	}
	active := int64(0)
	for lanes := range slices.Chunk(others, countLanes) {
		if total, _, err = c.count(ctx, lanes); err != nil {
			return Counts{}, err
		}
		active += total.Active
	}
	total.Ready -= active - total.Active
	total.Active = active
	return total, nil
}

// count counts, as far as jobs are active in the lanes, and tells which others there are.
func (c *Client) count(ctx context.Context, lanes []string) (total Counts, others []string, err error) {
	keys := []string{c.queue.JobsKey(), c.queue.JobsDueKey(), c.queue.BuriedKey(), c.queue.WaitingKey(), c.queue.LeasedKey()}
	for _, lane := range lanes {
		keys = append(keys, c.queue.LaneKey(lane))
	}
	m, err := c.client.Run(ctx, tier.Call{Script: countsScript, Keys: keys, Args: lanes})
	if err != nil {
		return total, nil, err
	}
	parts, err := tier.Parts("counts", m, 6)
	if err != nil {
		return total, nil, err
	}
	var n [5]int64
	for i := range n {
		if n[i], err = parts[i].AsInt64(); err != nil {
			return total, nil, err
		}
	}
	others, err = parts[5].AsStrSlice()
	return Counts{Ready: n[0] - n[1] - n[2] - n[3] - n[4], Active: n[4], Scheduled: n[1], Waiting: n[3], Dead: n[2]}, others, err
}

package queue

import (
	"context"
	"fmt"
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
	// Terms are what its sender asks of whoever handles it; nil: nothing.
	Terms  *tier.Terms
	Unique string // its unique key; "": none
	// Parent is the job that waits for it, in the queue ParentQueue; zero: none does. Family says that it is of a flow, so that
	// it may have children: see [Client.Children].
	Parent      codec.ID
	ParentQueue string
	Family      bool
	Message     codec.Message
	Err         error  // *codec.DecodeError: the message cannot be read
	Raw         []byte // the message as it is stored
}

// Get tells where a job is. The error is ErrNoJob when it is done, or never was; one that is not where its row says is an error,
// too, of which Check tells more.
func (c *Client) Get(ctx context.Context, id codec.ID) (Info, error) {
	for before := ""; ; {
		row, err := c.row(ctx, id)
		if err != nil {
			return Info{}, err
		}
		info, moved, err := c.look(ctx, id, row)
		if err != nil || !moved {
			return info, err
		}
		if row == before { // it would be another one, had the job gone elsewhere
			return info, fmt.Errorf("queue: %s of %s is not where its row says: %.64q", id, c.queue, row)
		}
		before = row
	}
}

// row is that of a job.
func (c *Client) row(ctx context.Context, id codec.ID) (string, error) {
	key := c.queue.JobsKey()
	m, err := c.client.Do(ctx, key, c.client.B().Hget().Key(key).Field(id.String()).Build())
	if rueidis.IsRedisNil(err) {
		return "", c.noJob(id)
	}
	if err != nil {
		return "", err
	}
	return m.ToString()
}

// look reads a job where its row says; moved says that it is not there.
func (c *Client) look(ctx context.Context, id codec.ID, text string) (info Info, moved bool, err error) {
	at, ok := parseRow(text)
	if !ok {
		return info, false, fmt.Errorf("queue: %s holds %.64q of %s, which is no row", c.queue.JobsKey(), text, id)
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
	i.readKind(body[1], body[2], body[3])
	i.Reason = body[4]
	return nil
}

// readEntry reads what a job holds that is in a lane.
func (i *Info) readEntry(fields []rueidis.XRangeFieldValue) {
	var options, unique, family string
	for _, f := range fields {
		switch f.Field {
		case codec.FieldMessage:
			i.read(f.Value)
		case fieldAttempts:
			i.Attempts, _ = strconv.Atoi(f.Value)
		case fieldOptions:
			options = f.Value
		case fieldUnique:
			unique = f.Value
		case fieldParent:
			family = f.Value
		}
	}
	i.readKind(options, unique, family)
}

// readKind reads what a job has beside its message; each is empty when it has none.
func (i *Info) readKind(options, unique, kin string) {
	if options != "" {
		i.Terms = termsOf(options)
	}
	if unique != "" {
		i.Unique = unique[1:]
	}
	if f, err := parseFamily(kin); err == nil {
		i.Family, i.ParentQueue = true, f.queue
		if f.job != "" {
			i.Parent, _ = codec.Parse(f.job)
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

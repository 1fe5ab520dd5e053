package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// defaultRetryFor is how long a call that fails is repeated.
const (
	defaultRetryFor = 30 * time.Second
	maxRetryFor     = callsTTL / 2 // the server's record of a call must outlive its repetitions
)

// Config of a Client. Queue is needed.
type Config struct {
	// Queue is a name; the queue is a scope of that name.
	Queue string
	// RetryFor is how long a call that fails for lack of a server, or whose reply was lost, is repeated, without effect on the
	// jobs. Default 30 s, at most 5 minutes. Short, a failover turns calls into ones of unknown outcome; long, callers wait.
	RetryFor time.Duration
}

// Client enqueues jobs and looks at them. It is safe for concurrent use: callers on many goroutines share round trips.
type Client struct {
	client *tier.Client
	queue  tier.Queue
	cfg    Config
	mint   mint
	keys   []string // of each call, but the first, and those of lanes

	mu    sync.Mutex
	open  []*batch   // to be sent; the last may still take jobs
	slots chan *slot // that have no call under way
}

// callsAtOnce is how many calls are under way. Few, so that callers gather behind them.
const callsAtOnce = 2

// NewClient checks the configuration. It sends nothing.
func NewClient(client *tier.Client, cfg Config) (*Client, error) {
	if err := tier.CheckName("scope", cfg.Queue); err != nil {
		return nil, err
	}
	if cfg.RetryFor == 0 {
		cfg.RetryFor = defaultRetryFor
	}
	if cfg.RetryFor < 0 || cfg.RetryFor > maxRetryFor {
		return nil, fmt.Errorf("%w: RetryFor is %s, want up to %s", ErrBadCall, cfg.RetryFor, maxRetryFor)
	}
	q := tier.Queue(cfg.Queue)
	c := &Client{client: client, queue: q, cfg: cfg, mint: mint{client: client}, slots: make(chan *slot, callsAtOnce), keys: []string{
		q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.RingKey(), q.LanesKey(), q.WorkersKey(), q.WakeKey(), q.UniqueKey(), q.QueueKey(), q.Events().LogKey(),
	}}
	for range callsAtOnce {
		c.slots <- &slot{producer: newProducer(), line: client.Line()}
	}
	return c, nil
}

// Close gives back the time that the client was granted to mint ids in. What it enqueued is not touched.
func (c *Client) Close(ctx context.Context) error { return c.mint.release(ctx) }

// Receipt is what became of a job that was to be enqueued.
type Receipt struct {
	// ID of the job; where another one has its unique key, of that one.
	ID codec.ID
	// Existing says that another job has its unique key, which was kept, or which carries now what this one did.
	Existing bool
	// Err is nil, ErrDuplicate, *UniqueError, or why the job is none: then it was not sent.
	Err error
}

// Enqueue enqueues a job and returns its id.
//
// Errors: those of Receipt; tier.ErrStoreFull and other classes of package tier, with nothing done, or
// tier.OutcomeUnknown(err): then it can be tried again with the same id, which is returned beside the error.
func (c *Client) Enqueue(ctx context.Context, job Job) (codec.ID, error) {
	jobs, receipts := [1]Job{job}, [1]Receipt{}
	err := c.enqueue(ctx, jobs[:], receipts[:])
	if err == nil {
		err = receipts[0].Err
	}
	return receipts[0].ID, err
}

// EnqueueMany enqueues jobs, each on its own: what one comes to does not touch another. Up to 4096 jobs and 8 MiB go in one
// round trip, more in several. Of those of one lane, the order is kept, but that one whose unique key is a job's of another lane may
// come after the others.
//
// The error is that of a round trip, as that of Enqueue; the receipts of it have the ids to try again with. What was enqueued
// already is ErrDuplicate then.
func (c *Client) EnqueueMany(ctx context.Context, jobs []Job) ([]Receipt, error) {
	receipts := make([]Receipt, len(jobs))
	return receipts, c.enqueue(ctx, jobs, receipts)
}

func (c *Client) enqueue(ctx context.Context, jobs []Job, receipts []Receipt) error {
	var one struct { // a caller with one job needs no other memory
		list   [1]encoded
		places [1]int
		ids    [1]codec.ID
	}
	list, places, ids := one.list[:0], one.places[:0], one.ids[:]
	if len(jobs) > 1 {
		list, places = make([]encoded, 0, len(jobs)), make([]int, 0, len(jobs))
	}
	missing := 0
	for i := range jobs {
		e, err := jobs[i].encode()
		if receipts[i] = (Receipt{ID: e.id, Err: err}); err != nil {
			continue
		}
		if e.id.IsZero() {
			missing++
		}
		list, places = append(list, e), append(places, i)
	}
	if missing > 0 {
		if missing > 1 {
			ids = make([]codec.ID, missing)
		}
		if err := c.mint.next(ctx, ids); err != nil {
			return err
		}
		for k := range list {
			if list[k].id.IsZero() {
				list[k].id, ids = ids[0], ids[1:]
				receipts[places[k]].ID = list[k].id
			}
		}
	}
	for len(list) > 0 {
		n := atOnce(list)
		b, offset, err := c.send(ctx, list[:n])
		if err != nil {
			return err
		}
		var again []encoded
		var where []int
		for k := range list[:n] {
			if len(b.outcomes) == 0 {
				break
			}
			o := b.outcomes[offset+k]
			if o.lane != "" {
				list[k].also = o.lane
				again, where = append(again, list[k]), append(where, places[k])
			} else if o.what != "" {
				o.receipt(&receipts[places[k]], &list[k])
			}
		}
		list, places = append(again, list[n:]...), append(where, places[n:]...)
	}
	return nil
}

// atOnce is how many of the jobs, one at least, one call takes: they have no more lanes, those beside their own too, than it may
// have jobs.
func atOnce(list []encoded) (n int) {
	bytes, lanes := 0, 0
	for ; n < min(len(list), maxBatch); n++ {
		if lanes++; list[n].also != "" {
			lanes++
		}
		if bytes += list[n].bytes(); n > 0 && (bytes > maxBatchBytes || lanes > maxBatch) {
			break
		}
	}
	return n
}

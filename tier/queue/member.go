package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Member is one worker of a queue: one incarnation of one process. What it holds is its own until it is silent for longer
// than the lease. Every call but Sync, Retire and Leave compares the member's number first and is refused whole with
// tier.ErrFenced when jobs of the member were taken over; Sync tells what is left.
//
// Entries are the ids of jobs as addresses, [codec.ID.HostEntry]; deliveries are their attempts. Its methods are safe for
// concurrent use.
type Member struct {
	workers *Workers
	name    string
	lease   time.Duration

	lost    atomic.Bool // a lane has no group: Rebuild makes it
	allowed sync.Map    // scripts that have run: the rights that they need are there
	claims  direct
	settles direct

	mu     sync.Mutex
	number string                   // as the hash of workers had it at the last Sync
	clock  clock                    // as of the last Sync or claim
	held   holdings                 // by the job
	ring   []string                 // lanes to declare at the next claim
	sole   string                   // the lane that had the ring for itself at the last claim, and more than was wanted; "": none
	known  outlook                  // as of the last claim
	look   sight                    // of the look under way
	told   map[codec.EntryID]string // jobs that are cancelled, and why, since Cancelled was asked
	swept  time.Time                // when the member last looked for what is stranded in the outbox
	strand string                   // from where it looks next; "": from the first
	behind bool                     // the last delivery from the outbox failed
}

// Name of the worker.
func (m *Member) Name() string { return m.name }

// Lease of the queue.
func (m *Member) Lease() time.Duration { return m.lease }

// holding is where a job is that the member holds.
type holding struct {
	job   string
	lane  string
	entry string
	base  int           // attempts before it came to this entry
	plain bool          // nothing else is to be done when it is done
	kin   bool          // it is of a flow
	keep  time.Duration // what it came to
	since time.Time     // when the member asked for it; zero: that is not known
}

type holdings map[codec.EntryID]holding

// byLane are jobs of one lane.
type byLane struct {
	lane string
	jobs []holding
	at   []int // their places in the call
}

// lanesOf sorts jobs by lanes. What the member does not hold is left out.
func (m *Member) lanesOf(n int, entry func(i int) codec.EntryID) (lanes []byLane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	places := map[string]int{}
	for i := range n {
		h, ok := m.held[entry(i)]
		if !ok {
			continue
		}
		p, ok := places[h.lane]
		if !ok {
			p = len(lanes)
			places[h.lane] = p
			lanes = append(lanes, byLane{lane: h.lane})
		}
		lanes[p].jobs, lanes[p].at = append(lanes[p].jobs, h), append(lanes[p].at, i)
	}
	return lanes
}

// letGo forgets jobs.
func (m *Member) letGo(n int, entry func(i int) codec.EntryID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range n {
		delete(m.held, entry(i))
	}
}

// Rebuild makes the group of lanes again that a server has lost: their jobs are ready again, all of them. What else it has lost
// of a queue is made again by the next Sync, and by the next job.
func (m *Member) Rebuild(ctx context.Context) (tier.Rebuilt, error) {
	q, c := m.workers.queue, m.workers.client
	for _, key := range []string{q.RingKey(), q.LeasedKey()} {
		reply, err := c.Do(ctx, key, c.B().Zrange().Key(key).Min("0").Max("-1").Build())
		if err != nil {
			return tier.Rebuilt{}, err
		}
		lanes, err := reply.AsStrSlice()
		if err != nil {
			return tier.Rebuilt{}, tier.Wrap("ZRANGE", key, err)
		}
		for _, lane := range lanes {
			log := q.LaneKey(lane)
			_, err := c.Do(ctx, log, c.B().XgroupCreate().Key(log).Group(group).Id("0").Build())
			if err != nil && tier.Classify(err) != tier.ErrServer { // it is there, or the lane is not
				return tier.Rebuilt{}, err
			}
		}
	}
	m.lost.Store(false)
	return tier.Rebuilt{How: tier.Restarted}, nil
}

// Checkpoint has nothing to do: a settled job is gone.
func (m *Member) Checkpoint(context.Context) error { return nil }

// Renew starts the leases of jobs, at most 4096, anew and shows that the member is alive. Gone are those which are no longer
// active.
func (m *Member) Renew(ctx context.Context, entries []codec.EntryID) (gone []codec.EntryID, err error) {
	if err := bounded(len(entries)); err != nil {
		return nil, err
	}
	lanes := m.lanesOf(len(entries), func(i int) codec.EntryID { return entries[i] })
	keys, args := []string{m.workers.queue.WorkersKey(), m.workers.queue.CancelledKey()}, m.identify()
	for _, l := range lanes {
		keys, args = append(keys, m.workers.queue.LaneKey(l.lane)), append(args, strconv.Itoa(len(l.jobs)))
		for _, h := range l.jobs {
			args = append(args, h.entry)
		}
		for _, h := range l.jobs {
			args = append(args, h.job)
		}
	}
	reply, err := m.run(ctx, renewScript, keys, args...)
	if err != nil {
		return nil, err
	}
	parts, err := tier.Parts("renew", reply, 3)
	if err != nil {
		return nil, err
	}
	if code, _ := parts[0].AsInt64(); code < 0 {
		return nil, tier.ErrFenced
	}
	answers, err := tier.Parts("renew", parts[1], len(lanes))
	if err != nil {
		return nil, err
	}
	if err := m.learnCancelled(parts[2]); err != nil {
		return nil, err
	}
	there := make([]bool, len(entries))
	for k, l := range lanes {
		still, err := answers[k].AsStrSlice()
		if err != nil {
			return nil, err
		}
		held := make(map[string]bool, len(still))
		for _, entry := range still {
			held[entry] = true
		}
		for i, h := range l.jobs {
			there[l.at[i]] = held[h.entry]
		}
	}
	for i, is := range there {
		if !is {
			gone = append(gone, entries[i])
		}
	}
	return gone, nil
}

// Release hands jobs back, at most 4096: anyone, this member included, may take them over after delay, which is at most the
// lease. Without a delay those who wait in Read for something to do are woken, and TakeOver brings them.
func (m *Member) Release(ctx context.Context, held []tier.Returned, delay time.Duration) error {
	if err := bounded(len(held)); err != nil || len(held) == 0 {
		return err
	}
	entry := func(i int) codec.EntryID { return held[i].Entry }
	delay = min(max(0, delay), m.lease)
	keys := []string{m.workers.queue.WorkersKey(), m.workers.queue.LeasedKey(), m.workers.queue.WakeKey()}
	args := append(m.identify(), millis(m.lease-delay), millis(delay))
	for _, l := range m.lanesOf(len(held), entry) {
		keys, args = append(keys, m.workers.queue.LaneKey(l.lane)), append(args, l.lane, strconv.Itoa(len(l.jobs)))
		for i, h := range l.jobs {
			args = append(args, h.entry, strconv.Itoa(max(0, held[l.at[i]].Deliveries-h.base)))
		}
	}
	_, err := m.fenced(ctx, releaseScript, keys, args)
	if err == nil {
		m.letGo(len(held), entry)
		m.lookBy(time.Now().Add(delay))
	}
	return err
}

// lookBy has the member look for jobs to take over at that time, if not before.
func (m *Member) lookBy(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known.look.IsZero() || at.Before(m.known.look) {
		m.known.look = at
	}
}

// Retire removes members that have been silent for ten leases.
func (m *Member) Retire(ctx context.Context) error {
	_, err := m.run(ctx, retireScript, []string{m.workers.queue.WorkersKey()}, millis(10*m.lease))
	return err
}

// Leave removes the member, unless it holds jobs: then others take them over, and retire it.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	holds := len(m.held)
	m.mu.Unlock()
	if holds > 0 {
		return nil
	}
	_, err := m.run(ctx, leaveScript, []string{m.workers.queue.WorkersKey()}, m.name)
	return err
}

// identify begins the arguments of a fenced call.
func (m *Member) identify() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []string{m.name, m.number}
}

// asks has a script ask whether the rights are there that it needs, which takes the server as long as to settle ten jobs, until it
// has run once.
func (m *Member) asks(s *tier.Script) string {
	if _, allowed := m.allowed.Load(s); allowed {
		return ""
	}
	return "1"
}

func (m *Member) run(ctx context.Context, s *tier.Script, keys []string, args ...string) (rueidis.RedisMessage, error) {
	reply, err := m.workers.client.Run(ctx, tier.Call{Script: s, Keys: keys, Args: args})
	if tier.Classify(err) == tier.ErrNoGroup {
		m.lost.Store(true)
	}
	return reply, err
}

// fenced runs a script that answers a count, or -1.
func (m *Member) fenced(ctx context.Context, s *tier.Script, keys, args []string) (int, error) {
	reply, err := m.run(ctx, s, keys, args...)
	if err != nil {
		return 0, err
	}
	n, err := reply.AsInt64()
	if err == nil && n < 0 {
		return 0, tier.ErrFenced
	}
	if err == nil {
		m.allowed.Store(s, true)
	}
	return int(n), err
}

// bounded refuses more jobs than a script can take.
func bounded(jobs int) error {
	if jobs > maxBatch {
		return fmt.Errorf("%w: %d jobs, at most %d", ErrBadCall, jobs, maxBatch)
	}
	return nil
}

package queue

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// direct is the short way of a member to many jobs: a transaction claims or settles them by commands of their own, which cost the server about
// half of what they cost in a script, through whose texts and lists they need not go. It is void when anything was written to what the member
// has seen to be as it should. What is not plain, and everything that went wrong, goes by the scripts.
type direct struct {
	tx     *tier.Transaction
	least  int           // jobs; fewer go by a script as fast
	pauses time.Duration // after what is not plain, or went wrong

	mu    sync.Mutex // of who uses it; others take the scripts
	seen  []any      // nil: no transaction is open
	at    time.Time  // when that was
	since time.Time  // its connection is there since then, or before
	until time.Time  // none is opened before
	page  tier.Page  // memory of claims
}

// directFresh is how long what a claim has seen of the ring is of use.
const directFresh = 250 * time.Millisecond

func newDirect(client *tier.Client) direct {
	return direct{tx: client.Transaction(), least: 32, pauses: time.Second}
}

// open has a transaction see something, unless one has, not longer ago than fresh where that is not 0. The caller holds mu, as of all that follows.
func (d *direct) open(ctx context.Context, fresh time.Duration, watch []string, look ...[]string) bool {
	now := time.Now()
	if d.seen != nil && (fresh == 0 || now.Sub(d.at) < fresh) {
		return true
	}
	if now.Before(d.until) {
		return false
	}
	seen, err := d.tx.Open(ctx, watch, look...)
	if err != nil { // the script tells what is wrong
		if d.pause(); errors.Is(err, tier.ErrPermission) {
			d.least = math.MaxInt
		}
		return false
	}
	d.at = time.Now()
	if d.seen == nil {
		d.since = d.at
	}
	d.seen = seen
	return true
}

// pause is for what will not be otherwise at once.
func (d *direct) pause() { d.seen, d.until = nil, time.Now().Add(d.pauses) }

// exec runs what the transaction is for. One of its commands that the server has refused when it ran, while others have run, is an error.
func (d *direct) exec(ctx context.Context, key string, write func(*tier.Conn) int, read func(*tier.Conn, int) error) (ran bool, err error) {
	var refusal tier.Refusal // one of a command that has run, while others have, too
	d.seen, ran, err = d.tx.Exec(ctx, write, func(c *tier.Conn, i int) error {
		err := read(c, i)
		if errors.As(err, &refusal) {
			return nil
		}
		return err
	})
	if d.at = time.Now(); d.seen == nil {
		d.pause()
	}
	if err == nil && refusal != "" {
		err = &tier.Error{Op: "EXEC", Key: key, Class: tier.ErrPartly, Err: refusal}
	}
	return ran, err
}

// distrust has the jobs that are held go by the scripts: of some it is not known whether they are.
func (d *direct) distrust() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since = time.Now()
}

// settleDirect is settle.lua for many jobs. That looks whether each job is where the member has it; here it is, since the member has not been fenced
// since it was given the job, over a connection to the same server, and has not tried to settle it. What is left to do for
// lanes the script does, which is called for no jobs.
func (m *Member) settleDirect(ctx context.Context, entries []codec.EntryID) (settled int, ran bool, err error) {
	d := &m.settles
	if _, allowed := m.allowed.Load(settleScript); !allowed || len(entries) < d.least || !d.mu.TryLock() {
		return 0, false, nil
	}
	defer d.mu.Unlock()
	if !m.openSettles(ctx) {
		return 0, false, nil
	}
	q := m.workers.queue
	id := m.identify()
	if d.seen[0] != id[1] || d.seen[1] != nil || d.seen[2] != int64(0) {
		d.pause()
		return 0, false, nil
	}
	lanes := m.lanesOf(len(entries), func(i int) codec.EntryID { return entries[i] })
	for _, l := range lanes {
		if slices.ContainsFunc(l.jobs, func(h holding) bool { return h.since.Before(d.since) }) {
			return 0, false, nil
		}
	}
	var rest error
	ran, err = d.exec(ctx, q.JobsKey(), func(c *tier.Conn) int { return m.writeSettle(c, lanes) }, func(c *tier.Conn, i int) error {
		n, err := c.Skip()
		switch {
		case i < len(lanes):
			settled += int(n)
		case i == 2*len(lanes)+1 && errors.As(err, new(tier.Refusal)):
			rest, err = err, nil
		}
		return err
	})
	if rest != nil { // the server does not know the script any more
		_, err = m.fenced(ctx, settleScript, m.settleKeys(lanes), append(append(id, ""), noJobs(lanes)...))
	}
	return settled, ran, err
}

func (m *Member) openSettles(ctx context.Context) bool {
	q := m.workers.queue
	return m.settles.open(ctx, 0, []string{q.WorkersKey(), q.QueueKey(), q.CancelledKey(), q.NotesKey()},
		[]string{"HGET", q.WorkersKey(), m.name}, []string{"HGET", q.QueueKey(), "events"}, []string{"EXISTS", q.CancelledKey(), q.NotesKey()})
}

// writeSettle writes, for all lanes, XACK, XDEL, then HDEL, and the script for what lanes are after that.
func (m *Member) writeSettle(c *tier.Conn, lanes []byLane) (commands int) {
	q := m.workers.queue
	var ids []string
	entries := make([][]string, len(lanes))
	for i, l := range lanes {
		for _, h := range l.jobs {
			entries[i], ids = append(entries[i], h.entry), append(ids, h.job)
		}
	}
	for _, command := range [][]string{{"XACK", group}, {"XDEL"}} {
		for i, l := range lanes {
			words := slices.Concat(command[:1], []string{q.LaneKey(l.lane)}, command[1:])
			c.Send(tier.CommandHead(len(entries[i]), words...), entries[i]...)
		}
	}
	c.Send(tier.CommandHead(len(ids), "HDEL", q.JobsKey()), ids...)
	call := tier.Call{Script: settleScript, Keys: m.settleKeys(lanes), Args: append(append(m.identify(), ""), noJobs(lanes)...)}
	c.Send(tier.AppendCommand(nil, m.workers.client.Words(call)...))
	return 2*len(lanes) + 2
}

// noJobs is what settle.lua takes of lanes of which only is to be seen to what they are.
func noJobs(lanes []byLane) (args []string) {
	for _, l := range lanes {
		args = append(args, l.lane, "0", "")
	}
	return args
}

// claimDirect is claim.lua for many jobs of a lane that has the ring for itself, and of which as many were there as were wanted last time, where
// neither the queue nor the lane has a limit, and no job a unique key.
func (m *Member) claimDirect(ctx context.Context, n int) (c claim, ran bool, err error) {
	d, q := &m.claims, m.workers.queue
	if n < d.least || !d.mu.TryLock() {
		return c, false, nil
	}
	defer d.mu.Unlock()
	m.mu.Lock()
	lane, number := m.sole, m.number
	m.mu.Unlock()
	if lane == "" || !d.open(ctx, directFresh, []string{q.WorkersKey(), q.QueueKey(), q.LanesKey(), q.ActiveKey(), q.UniqueKey()},
		[]string{"HGET", q.WorkersKey(), m.name}, []string{"HMGET", q.QueueKey(), "paused", "rate", "events"}, []string{"EXISTS", q.ActiveKey(), q.UniqueKey(), q.LimitedKey()},
		[]string{"HGET", q.LanesKey(), lane}, []string{"ZRANGE", q.RingKey(), "0", "1"}, []string{"ZRANGE", q.JobsDueKey(), "0", "0", "WITHSCORES"},
		[]string{"ZRANGE", q.LeasedKey(), "0", "0", "WITHSCORES"}, []string{"TIME"}) {
		return c, false, nil
	}
	if d.seen[0] != number || !slices.Equal(list(d.seen[1]), []any{nil, nil, nil}) || d.seen[2] != int64(0) || d.seen[3] != nil || !slices.Equal(list(d.seen[4]), []any{lane}) {
		d.pause()
		return c, false, nil
	}
	look := strconv.FormatInt(serverTime(d.seen[7]).Add(time.Since(d.at)+m.lease).UnixMilli(), 10)
	turn := func(jobs int) []string { return []string{"ZADD", q.RingKey(), "XX", "INCR", strconv.Itoa(jobs), lane} }
	asked := time.Now()
	ran, err = d.exec(ctx, q.LaneKey(lane), func(c *tier.Conn) int {
		c.Send(tier.AppendCommand(nil, "ZADD", q.LeasedKey(), "NX", look, lane))
		c.Send(tier.AppendCommand(nil, turn(n)...))
		c.Send(tier.AppendCommand(nil, "XREADGROUP", "GROUP", group, m.name, "COUNT", strconv.Itoa(n), "STREAMS", q.LaneKey(lane), ">"))
		return 3
	}, func(c *tier.Conn, i int) error {
		if i < 2 {
			_, err := c.Skip()
			return err
		}
		err := c.Page(&d.page)
		if errors.As(err, new(tier.Refusal)) { // the lane is gone
			return nil
		}
		return err
	})
	if !ran || err != nil {
		return c, ran, err
	}
	got := len(d.page.Entries)
	if got < n { // the lane has paid for more than it was served
		words := turn(got - n)
		_, _ = m.workers.client.Do(ctx, words[1], m.workers.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	}
	jobs, records := make([]leasedJob, 0, got), make([]codec.Record, 0, got)
	for _, e := range d.page.Entries {
		if job, ok := readJob(&records, lane, e.ID.String(), e.Fields, 1); ok {
			job.Records[0].Fields = slices.Clone(job.Records[0].Fields) // of one that cannot be decoded
			jobs = append(jobs, job)
		}
	}
	d.page.Clear()
	m.mu.Lock()
	defer m.mu.Unlock()
	if got < n {
		m.sole = ""
	}
	if d.seen != nil {
		m.clock = clock{d.at, serverTime(d.seen[7])}
		m.known = outlook{at: d.at, due: m.clock.first(d.seen[5]), look: m.clock.first(d.seen[6])}
	}
	c.jobs = m.take(jobs, asked)
	return c, got > 0, nil
}

// serverTime reads the reply to TIME.
func serverTime(v any) time.Time {
	parts := list(v)
	if len(parts) != 2 {
		return time.Time{}
	}
	s, us := number(parts[0]), number(parts[1])
	return time.Unix(s, us*1000)
}

// first is when the first of a sorted set is, whose reply that is; zero: there is none.
func (c clock) first(v any) time.Time {
	parts := list(v)
	if len(parts) != 2 {
		return time.Time{}
	}
	return c.here(time.UnixMilli(number(parts[1])))
}

func number(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

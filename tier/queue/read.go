package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// Lanes of the ring that one claim declares: an eighth of what is wanted, so that each gives a few. A lane costs a claim and a
	// settle 25 us of the server's time, a job 7.
	minHeads, maxHeads = 16, 64
	// beat is how long a member without work relies on the doorbell alone.
	beat = 8 * time.Second
	// maxPark is how long one request waits at the doorbell; it is how long the end of a context goes unnoticed.
	maxPark = 2 * time.Second
	// servedLook is the pause of a member that does not serve all lanes, and so cannot wait for the bell: it would hear it in place of one
	// that serves the lane.
	servedLook = 1500 * time.Millisecond
)

// outlook is what a claim tells of what is to come.
type outlook struct {
	at     time.Time // of the claim
	paused bool
	idle   bool      // nothing was to be had, and nobody has rung since
	due    time.Time // the first scheduled job; zero: none
	look   time.Time // the first lane is to be looked at; zero: none
}

// Read returns up to n jobs that nobody was given yet, lanes in turn. It waits for the first up to wait; when ctx ends
// meanwhile, for two seconds more at most. After an error, Sync tells what was given all the same.
func (m *Member) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	if n <= 0 {
		return nil, nil
	}
	for until := time.Now().Add(wait); ; {
		if wait < time.Millisecond || !m.idles() {
			leased, err := m.claimed(ctx, min(n, maxBatch))
			if err != nil || len(leased) > 0 {
				return leased, err
			}
		}
		left := min(time.Until(until), m.waitsFor())
		if left < time.Millisecond || ctx.Err() != nil {
			if time.Until(until) < time.Millisecond || ctx.Err() != nil {
				return nil, nil
			}
			continue // something is due
		}
		if err := m.park(ctx, left); err != nil {
			return nil, err
		}
	}
}

// idles says that a claim would bring nothing: the last one has not, nobody has rung since, and nothing is due. Whoever does not
// wait for the bell does not hear it.
func (m *Member) idles() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	return m.known.idle && now.Sub(m.known.at) < beat && (m.known.due.IsZero() || now.Before(m.known.due))
}

// waitsFor is how long there is nothing to do but to wait for the bell.
func (m *Member) waitsFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := maxPark
	if !m.known.due.IsZero() && !m.known.paused {
		wait = min(wait, time.Until(m.known.due))
	}
	return wait
}

// park waits for the bell.
func (m *Member) park(ctx context.Context, wait time.Duration) (err error) {
	if len(m.workers.cfg.Lanes) > 0 {
		tier.Pause(ctx, min(wait, servedLook))
	} else {
		key := m.workers.queue.WakeKey()
		c := m.workers.client
		seconds := float64(wait.Milliseconds()) / 1000
		_, err = c.Wait(ctx, key, wait, c.B().Blpop().Key(key).Timeout(seconds).Build())
		if rueidis.IsRedisNil(err) {
			return nil
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.idle = false
	return err
}

// claimed claims jobs until there are some, or the ring has none. What is due is promoted before.
func (m *Member) claimed(ctx context.Context, n int) ([]tier.Leased, error) {
	for promoted := false; ; {
		c, err := m.claim(ctx, n)
		switch {
		case err != nil || len(c.jobs) > 0 || c.paused:
			return c.jobs, err
		case c.more:
		case c.due && !promoted:
			promoted = true
			if _, err := m.promote(ctx, n); err != nil {
				return nil, err
			}
		default:
			return nil, nil
		}
	}
}

// claim is one call of claim.lua.
type claim struct {
	jobs   []tier.Leased
	paused bool
	more   bool // lanes that were not declared have their turn
	due    bool
}

func (m *Member) claim(ctx context.Context, n int) (c claim, err error) {
	if c, ran, err := m.claimDirect(ctx, n); ran || err != nil {
		return c, err
	}
	q := m.workers.queue
	m.mu.Lock()
	lanes := m.ring
	m.mu.Unlock()
	keys := []string{q.WorkersKey(), q.QueueKey(), q.RingKey(), q.LanesKey(), q.LeasedKey(), q.JobsDueKey(), q.UniqueKey(), q.LimitedKey(), q.BucketsKey(), q.Events().LogKey(), q.ActiveKey()}
	for _, lane := range lanes {
		keys = append(keys, q.LaneKey(lane))
	}
	heads, all := min(max(minHeads, n/8), maxHeads), len(m.workers.cfg.Lanes) == 0
	if !all {
		heads = 0
	}
	args := append(m.identify(), millis(m.lease), strconv.Itoa(n), strconv.Itoa(heads))
	asked := time.Now()
	reply, err := m.run(ctx, claimScript, keys, append(args, lanes...)...)
	if err != nil {
		return c, err
	}
	parts, err := tier.Parts("claim", reply, 6)
	if err != nil {
		return c, err
	}
	code, err := parts[0].AsInt64()
	if err != nil {
		return c, err
	}
	if code < 0 {
		return c, tier.ErrFenced
	}
	jobs, err := readTurns(lanes, parts[1])
	if err != nil {
		return c, err
	}
	ring, err := parts[2].AsStrSlice()
	if err != nil {
		return c, err
	}
	clock, err := readClock(parts[5])
	if err != nil {
		return c, err
	}
	now := time.Now()
	c.paused = code == 0
	c.more = slices.ContainsFunc(ring, func(lane string) bool { return !slices.Contains(lanes, lane) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sole = ""
	if m.clock = clock; all {
		m.ring = ring
		if len(ring) == 1 && len(lanes) == 1 && len(jobs) == n && lanes[0] == ring[0] {
			m.sole = ring[0]
		}
	}
	m.known = outlook{at: now, paused: c.paused, due: after(now, parts[3]), look: after(now, parts[4])}
	c.due = !m.known.due.IsZero() && !now.Before(m.known.due)
	m.known.idle = len(jobs) == 0 && !c.more && !c.due
	c.jobs = m.take(jobs, asked)
	return c, nil
}

// take notes jobs as held that were asked for then: the answer may be of a server that the client has left meanwhile. The caller holds mu.
func (m *Member) take(jobs []leasedJob, asked time.Time) []tier.Leased {
	leased := make([]tier.Leased, len(jobs))
	for i := range jobs {
		jobs[i].since = asked
		m.held[jobs[i].Entry] = jobs[i].holding
		leased[i] = jobs[i].Leased
		if t := leased[i].Terms; t != nil {
			t.Deadline = m.clock.here(t.Deadline)
		}
	}
	return leased
}

// after is a time in so many ms; zero for one below 0.
func after(now time.Time, m rueidis.RedisMessage) time.Time {
	ms, err := m.AsInt64()
	if err != nil || ms < 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(ms) * time.Millisecond)
}

// readTurns reads {{lane, turn, weight, jobs}, ...} of claim.lua and puts the jobs into the order in which the lanes have their turns.
func readTurns(lanes []string, m rueidis.RedisMessage) ([]leasedJob, error) {
	groups, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	type turn struct {
		at  float64
		job leasedJob
	}
	var turns []turn
	for _, group := range groups {
		parts, err := tier.Parts("claim", group, 4)
		if err != nil {
			return nil, err
		}
		lane, err1 := parts[0].AsInt64()
		at, err2 := parts[1].AsFloat64()
		weight, err3 := parts[2].AsFloat64()
		list, err4 := parts[3].ToArray()
		if err := cmp.Or(err1, err2, err3, err4); err != nil {
			return nil, err
		}
		records := make([]codec.Record, 0, len(list)/4)
		if lane < 1 || int(lane) > len(lanes) {
			return nil, fmt.Errorf("queue: claim: there is no lane %d among %d", lane, len(lanes))
		}
		for ; len(list) >= 4; list = list[4:] {
			entry, err1 := list[0].ToString()
			id, err2 := list[1].ToString()
			message, err3 := list[2].ToString()
			fields := []string{fieldJob, id, codec.FieldMessage, message}
			if err := cmp.Or(err1, err2, err3); err != nil {
				return nil, err
			}
			if !list[3].IsNil() {
				if fields, err = list[3].AsStrSlice(); err != nil {
					return nil, err
				}
			}
			job, ok := readJob(&records, lanes[lane-1], entry, fields, 1)
			if at += 1 / weight; ok {
				turns = append(turns, turn{at, job})
			}
		}
	}
	if len(groups) > 1 {
		slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	}
	jobs := make([]leasedJob, len(turns))
	for i := range turns {
		jobs[i] = turns[i].job
	}
	return jobs, nil
}

// readEntry is readJob of an entry and its fields.
func readEntry(lane string, m rueidis.RedisMessage, deliveries int) (j leasedJob, ok bool, err error) {
	pair, err := tier.Parts("entry", m, 2)
	if err != nil {
		return j, false, err
	}
	entry, err1 := pair[0].ToString()
	fields, err2 := pair[1].AsStrSlice()
	if err := cmp.Or(err1, err2); err != nil {
		return j, false, err
	}
	j, ok = readJob(new([]codec.Record), lane, entry, fields, deliveries)
	return j, ok, nil
}

// readJob reads an entry of a lane, whose record is added to those of the others; ok is false when it is none of ours: it stays pending.
func readJob(records *[]codec.Record, lane, entry string, fields []string, deliveries int) (j leasedJob, ok bool) {
	base := 0
	j.plain = true
	for i := 0; i+1 < len(fields); i += 2 {
		j.Bytes += len(fields[i]) + len(fields[i+1])
		switch fields[i] {
		case fieldJob:
			j.job = fields[i+1]
		case fieldAttempts:
			base, _ = strconv.Atoi(fields[i+1])
		case fieldUnique:
			j.plain = false
		case fieldParent:
			j.plain, j.kin = false, true
		case fieldOptions:
			j.Terms = termsOf(fields[i+1])
			j.keep = j.Terms.Keep
			j.plain = j.plain && j.keep == 0
		}
	}
	id, err := codec.Parse(j.job)
	if err != nil || id.Brand() != Brand {
		return j, false
	}
	j.lane, j.entry, j.base = lane, entry, base
	j.Entry, j.Deliveries = id.HostEntry(), base+deliveries
	at := len(*records)
	*records = jobs.Records(*records, codec.Entry{ID: j.Entry, Fields: fields})
	j.Records = slices.Clip((*records)[at:])
	return j, true
}

// Fields of an entry of a lane, beside that of the message.
const (
	fieldJob      = "j"
	fieldAttempts = "a" // before it came here
	fieldOptions  = "o"
	fieldUnique   = "u"
	fieldParent   = "p"
)

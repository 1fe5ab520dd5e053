package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

const (
	// takeOverPage is how many active jobs one look covers.
	takeOverPage = 1000
	// takeOverLanes is how many lanes one look covers.
	takeOverLanes = 64
)

// sight is how far a look has come.
type sight struct {
	lanes  []string // that are due
	within string   // the first of them is looked at from there on; empty: from its beginning
}

// TakeOver takes up to n jobs over whose lease has ended, wherever they are held, this member included; among them at most
// the given number of suspects, which two workers or more have let go of. One call looks at one page of the lanes that are due
// for it; Done says that no other lane is. Where the last claim has told that none is, nothing is sent; of a paused queue it is asked
// whether it still is. Every few seconds it delivers what is stranded in the outbox.
func (m *Member) TakeOver(ctx context.Context, n, suspects int) (tier.Taken, error) {
	m.sweep(ctx)
	m.mu.Lock()
	known, look := m.known, m.look
	m.mu.Unlock()
	now := time.Now()
	if len(look.lanes) == 0 && now.Sub(known.at) < beat && !known.paused && (known.look.IsZero() || now.Before(known.look)) {
		return tier.Taken{Done: true, Next: -1}, nil
	}
	if n <= 0 {
		return tier.Taken{Next: -1}, nil
	}
	served := m.workers.cfg.Lanes
	if len(look.lanes) == 0 {
		look.lanes = served
	}
	t, err := m.lookThrough(ctx, look, n, suspects)
	if err != nil {
		return tier.Taken{}, err
	}
	if len(served) > 0 {
		t.rest.lanes = slices.DeleteFunc(t.rest.lanes, func(lane string) bool { return !slices.Contains(served, lane) })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.idle = m.known.idle && m.known.paused == t.paused
	if m.known.paused = t.paused; t.paused {
		return tier.Taken{Paused: true, Next: -1}, nil
	}
	m.look, m.known.look = t.rest, t.next
	return tier.Taken{Leased: m.take(t.jobs, now), Done: len(t.rest.lanes) == 0, Next: -1, Suspects: t.suspects}, nil
}

// taking is what one call of takeover.lua brought.
type taking struct {
	paused   bool
	jobs     []leasedJob
	rest     sight
	next     time.Time // when the first lane is to be looked at
	suspects int       // that were passed over
}

func (m *Member) lookThrough(ctx context.Context, look sight, n, suspects int) (t taking, err error) {
	q := m.workers.queue
	keys := []string{q.WorkersKey(), q.QueueKey(), q.RingKey(), q.LanesKey(), q.LeasedKey(), q.Events().LogKey(), q.ActiveKey(), q.WakeKey()}
	args := append(m.identify(), millis(m.lease), strconv.Itoa(min(n, maxBatch)), strconv.Itoa(suspects), strconv.Itoa(takeOverPage), strconv.Itoa(takeOverLanes))
	for i, lane := range look.lanes {
		from := "-"
		if i == 0 && look.within != "" {
			from = look.within
		}
		keys, args = append(keys, q.LaneKey(lane)), append(args, lane, from)
	}
	reply, err := m.run(ctx, takeoverScript, keys, args...)
	if err != nil {
		return t, err
	}
	parts, err := tier.Parts("takeover", reply, 7)
	if err != nil {
		return t, err
	}
	code, err := parts[0].AsInt64()
	if t.paused = code == 0; err != nil || t.paused {
		return t, err
	}
	if code < 0 {
		return t, tier.ErrFenced
	}
	if t.jobs, err = readTaken(look.lanes, parts[1]); err != nil {
		return t, err
	}
	stopped, err1 := parts[2].AsInt64()
	within, err2 := parts[3].ToString()
	due, err3 := parts[4].AsStrSlice()
	passed, err4 := parts[6].AsInt64()
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return t, err
	}
	t.rest, t.next, t.suspects = sight{lanes: due}, after(time.Now(), parts[5]), int(passed)
	if stopped > 0 && int(stopped) <= len(look.lanes) {
		lane := look.lanes[stopped-1]
		due = slices.DeleteFunc(due, func(other string) bool { return other == lane })
		t.rest = sight{lanes: append([]string{lane}, due...), within: within}
	}
	return t, nil
}

// readTaken reads {{lane, {entry, deliveries, ...}, entries}, ...}.
func readTaken(lanes []string, m rueidis.RedisMessage) (jobs []leasedJob, err error) {
	groups, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		g, err := tier.Parts("takeover", group, 3)
		if err != nil {
			return nil, err
		}
		lane, err1 := g[0].AsInt64()
		flat, err2 := g[1].ToArray()
		entries, err3 := g[2].ToArray()
		if err := cmp.Or(err1, err2, err3); err != nil {
			return nil, err
		}
		if lane < 1 || int(lane) > len(lanes) {
			return nil, fmt.Errorf("queue: takeover: there is no lane %d among %d", lane, len(lanes))
		}
		deliveries := map[string]int{}
		for i := 0; i+1 < len(flat); i += 2 {
			entry, err1 := flat[i].ToString()
			n, err2 := flat[i+1].AsInt64()
			if err := cmp.Or(err1, err2); err != nil {
				return nil, err
			}
			deliveries[entry] = int(n)
		}
		for _, entry := range entries {
			job, ok, err := readEntry(lanes[lane-1], entry, 0)
			if err != nil {
				return nil, err
			}
			if job.Deliveries += deliveries[job.entry]; ok {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs, nil
}

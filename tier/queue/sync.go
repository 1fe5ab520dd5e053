package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// syncPage is how many lanes one call of Sync looks through.
const syncPage = 256

// synced is what one call of sync.lua brought.
type synced struct {
	number string
	lease  time.Duration
	jobs   []leasedJob
	others []string // lanes that were not declared
	clock  clock
}

// Sync asks for the member's number and for what it holds, at most 4096 jobs: at the start, after tier.ErrFenced, and after a
// Read that failed. It goes through all lanes with active jobs. The error is tier.ErrNoGroup when Rebuild has to be called first.
func (m *Member) Sync(ctx context.Context) ([]tier.Held, error) {
	if m.lost.Load() {
		return nil, &tier.Error{Op: "sync", Key: m.workers.queue.RingKey(), Class: tier.ErrNoGroup, Err: errors.New("a lane has no group")}
	}
	for {
		held, number, err := m.syncOnce(ctx)
		if err != nil || number != "" {
			return held, err
		}
	}
}

// syncOnce goes through the lanes once; without a number when it was fenced meanwhile.
func (m *Member) syncOnce(ctx context.Context) (held []tier.Held, number string, err error) {
	s, err := m.syncLanes(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	number = s.number
	found := holdings{}
	for lanes := range slices.Chunk(s.others, syncPage) {
		if s, err = m.syncLanes(ctx, lanes); err != nil || s.number != number {
			return nil, "", err
		}
		for i := range s.jobs {
			if j := &s.jobs[i]; len(held) < maxBatch {
				found[j.Entry] = j.holding
				held = append(held, tier.Held{Entry: j.Entry, Deliveries: j.Deliveries})
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number, m.held, m.clock = number, found, s.clock
	return held, number, nil
}

func (m *Member) syncLanes(ctx context.Context, lanes []string) (s synced, err error) {
	q := m.workers.queue
	keys := []string{q.WorkersKey(), q.QueueKey(), q.LeasedKey()}
	for _, lane := range lanes {
		keys = append(keys, q.LaneKey(lane))
	}
	args := append([]string{m.name, millis(m.workers.cfg.Lease), millis(DefaultLease), strconv.Itoa(maxBatch)}, lanes...)
	reply, err := m.run(ctx, syncScript, keys, args...)
	if err != nil {
		return s, err
	}
	parts, err := tier.Parts("sync", reply, 5)
	if err != nil {
		return s, err
	}
	if s.number, err = parts[0].ToString(); err != nil {
		return s, err
	}
	text, err := parts[1].ToString()
	if err != nil {
		return s, err
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return s, fmt.Errorf("queue: %s: its lease is damaged: %w", q, err)
	}
	s.lease = time.Duration(ms) * time.Millisecond
	rows, err := parts[2].ToArray()
	if err != nil {
		return s, err
	}
	for _, row := range rows {
		p, err := tier.Parts("sync", row, 3)
		if err != nil {
			return s, err
		}
		lane, err1 := p[0].AsInt64()
		deliveries, err2 := p[1].AsInt64()
		if err1 != nil || err2 != nil || lane < 1 || int(lane) > len(lanes) || p[2].IsNil() {
			continue // it was deleted by another program
		}
		if job, ok, err := readEntry(lanes[lane-1], p[2], int(deliveries)); err != nil {
			return s, err
		} else if ok {
			s.jobs = append(s.jobs, job)
		}
	}
	if s.others, err = parts[3].AsStrSlice(); err != nil {
		return s, err
	}
	s.clock, err = readClock(parts[4])
	return s, err
}

// leasedJob is a job as a script answered it.
type leasedJob struct {
	tier.Leased
	holding
}

// jobs are those of any queue: their ids are their addresses.
var jobs = codec.Identity{Brand: Brand, Exclusive: true}

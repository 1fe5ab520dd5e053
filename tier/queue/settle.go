package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Settle settles jobs, at most 4096, which are done then, and returns how many of them were active.
func (m *Member) Settle(ctx context.Context, entries []codec.EntryID) (settled int, err error) {
	if err := bounded(len(entries)); err != nil || len(entries) == 0 {
		return 0, err
	}
	plain, rest := m.apart(entries)
	if len(rest) > 0 {
		if err := m.Commit(ctx, rest); err != nil || len(plain) == 0 {
			return len(rest), err
		}
	}
	entry := func(i int) codec.EntryID { return plain[i] }
	settled, ran, err := m.settleDirect(ctx, plain)
	if !ran && err == nil {
		settled, err = m.settleByScript(ctx, m.lanesOf(len(plain), entry))
	}
	if err == nil {
		m.letGo(len(plain), entry)
	} else {
		m.settles.distrust()
	}
	return settled + len(rest), err
}

func (m *Member) settleByScript(ctx context.Context, lanes []byLane) (settled int, err error) {
	now, args := time.Now(), append(m.identify(), m.asks(settleScript))
	for _, l := range lanes {
		args = append(args, l.lane, strconv.Itoa(len(l.jobs)))
		for _, h := range l.jobs {
			args = append(args, h.entry)
		}
		for _, h := range l.jobs {
			args = append(args, h.job)
		}
		var had []byte
		for i := range l.jobs {
			had = append(strconv.AppendInt(had, l.jobs[i].had(now), 10), ' ')
		}
		args = append(args, string(had))
	}
	return m.fenced(ctx, settleScript, m.settleKeys(lanes), args)
}

func (m *Member) settleKeys(lanes []byLane) []string {
	q := m.workers.queue
	keys := append(m.endKeys(), q.CancelledKey(), q.NotesKey(), q.QueueKey(), q.Events().LogKey(), q.ActiveKey())
	for _, l := range lanes {
		keys = append(keys, q.LaneKey(l.lane))
	}
	return keys
}

// apart tells jobs with which nothing is to be done but to end them from others.
func (m *Member) apart(entries []codec.EntryID) (plain []codec.EntryID, rest []tier.Ending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range entries {
		if h, ok := m.held[e]; !ok || h.plain {
			if rest != nil {
				plain = append(plain, e)
			}
			continue
		}
		if rest == nil {
			plain = append(make([]codec.EntryID, 0, len(entries)), entries[:i]...)
		}
		rest = append(rest, tier.Ending{Entry: e, Deliveries: 1})
	}
	if rest == nil {
		return entries, nil
	}
	return plain, rest
}

// had is how many ms the member has had the job; -1: that is not known.
func (h *holding) had(now time.Time) int64 {
	if h.since.IsZero() {
		return -1
	}
	return now.Sub(h.since).Milliseconds()
}

// endKeys are those that ending jobs needs.
func (m *Member) endKeys() []string {
	q := m.workers.queue
	return []string{q.WorkersKey(), q.JobsKey(), q.RingKey(), q.LanesKey(), q.LeasedKey(), q.WakeKey()}
}

// errOutputs is why a job has no outputs but its result.
var errOutputs = errors.New("a job has no outputs: append to a stream in the handler, or store a result")

// Commit ends deliveries of jobs, at most 4096, with all that comes of them: what is open is scheduled again, what is given up
// is dead. A scheduled job is nobody's: Read brings it again when it is due.
//
// Errors: tier.ErrFenced; *tier.OutputError: outputs are not for jobs, and nothing was done.
func (m *Member) Commit(ctx context.Context, entries []tier.Ending) error {
	if err := bounded(len(entries)); err != nil || len(entries) == 0 {
		return err
	}
	q := m.workers.queue
	entry := func(i int) codec.EntryID { return entries[i].Entry }
	keys, args := append(m.endKeys(), q.BodiesKey(), q.JobsDueKey(), q.BuriedKey(), q.UniqueKey(), q.CancelledKey(), q.OutboxKey(), q.NotesKey(), q.QueueKey(), q.Events().LogKey(), q.ActiveKey()), append(m.identify(), m.asks(commitScript))
	kin, now := false, time.Now()
	lanes, results := m.lanesOf(len(entries), entry), []string(nil)
	for k, l := range lanes {
		keys = append(keys, q.LaneKey(l.lane))
		for i, h := range l.jobs {
			e := &entries[l.at[i]]
			how, err := ended(e)
			if err != nil {
				return err
			}
			args = append(append(args, strconv.Itoa(k+1), h.lane, h.entry, h.job), how...)
			kin = kin || h.kin
			keep, at := "0", "0"
			if h.keep > 0 {
				results = append(results, q.ResultKey(h.job))
				keep, at = millis(h.keep), strconv.Itoa(len(lanes)+len(results))
			}
			args = append(args, keep, at, strconv.FormatInt(h.had(now), 10))
		}
	}
	_, err := m.fenced(ctx, commitScript, append(keys, results...), args)
	if err != nil {
		m.settles.distrust()
		return err
	}
	m.letGo(len(entries), entry)
	if kin {
		m.forward(ctx)
	}
	return nil
}

// ended is how a job ends, as commit.lua takes it.
func ended(e *tier.Ending) ([]string, error) {
	switch {
	case len(e.Dead) > 0:
		d := e.Dead[0]
		return []string{strconv.Itoa(d.Attempts), "dead", "0", d.Reason}, nil
	case len(e.Open) > 0:
		o := e.Open[0]
		return []string{strconv.Itoa(max(0, o.Attempt)), "again", millis(max(0, o.Delay)), o.Reason}, nil
	}
	result := ""
	for i, o := range e.Outputs {
		if o.Kind != tier.OutputResult {
			return nil, &tier.OutputError{Entry: e.Entry, Output: i, Err: errOutputs}
		}
		result = o.Value
	}
	return []string{strconv.Itoa(e.Deliveries), "done", "0", result}, nil
}

const (
	// promotePage is how many due jobs one call promotes.
	promotePage = 256
	// promoteCalls is how many calls a promotion makes: other members promote, too, and then what was seen is gone.
	promoteCalls = 8
)

// promote makes jobs ready that are due, at most n, and returns how many.
func (m *Member) promote(ctx context.Context, n int) (promoted int, err error) {
	q := m.workers.queue
	var lanes []string
	for call := 0; call < promoteCalls && promoted < n; call++ {
		keys := []string{q.QueueKey(), q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.RingKey(), q.LanesKey(), q.WorkersKey(), q.WakeKey(), q.Events().LogKey()}
		for _, lane := range lanes {
			keys = append(keys, q.LaneKey(lane))
		}
		reply, err := m.run(ctx, promoteScript, keys, append([]string{strconv.Itoa(min(n, promotePage))}, lanes...)...)
		if err != nil {
			return promoted, err
		}
		parts, err := tier.Parts("promote", reply, 4)
		if err != nil {
			return promoted, err
		}
		count, err := parts[1].AsInt64()
		if err != nil {
			return promoted, err
		}
		undeclared, err := parts[2].AsStrSlice()
		if err != nil {
			return promoted, err
		}
		promoted += int(count)
		if len(undeclared) == 0 {
			break
		}
		lanes = undeclared
	}
	return promoted, nil
}

// Due makes jobs ready that are due, at most n; Read brings them.
func (m *Member) Due(ctx context.Context, n int) (tier.Taken, error) {
	if n > 0 {
		if _, err := m.promote(ctx, n); err != nil {
			return tier.Taken{}, err
		}
		m.mu.Lock()
		m.known.idle = false
		m.mu.Unlock()
	}
	return tier.Taken{Next: -1}, nil
}

package queue_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// enqueue is what a call with jobs comes to. Those that replace one in a lane that the call did not declare come
// after the others.
func (w *twin) enqueue(jobs []queue.Job) []queue.Receipt {
	receipts := make([]queue.Receipt, len(jobs))
	places := make([]int, len(jobs))
	for i := range jobs {
		places[i] = i
	}
	for declared := map[string]bool{}; len(places) > 0; {
		var again []int
		for _, i := range places {
			declared[jobs[i].Lane] = true
		}
		for _, i := range places {
			if r, lane := w.enqueueOne(&jobs[i], declared); lane != "" {
				again = append(again, i)
			} else {
				receipts[i] = r
			}
		}
		for _, i := range again {
			declared[w.jobs[w.unique[jobs[i].Unique.Key].id].lane] = true
		}
		places = again
	}
	return receipts
}

func (w *twin) enqueueOne(job *queue.Job, declared map[string]bool) (r queue.Receipt, elsewhere string) {
	if w.jobs[job.ID] != nil {
		return queue.Receipt{ID: job.ID, Err: queue.ErrDuplicate}, ""
	}
	if held, taken := w.unique[job.Unique.Key]; taken && job.Unique.Key != "" {
		other := w.jobs[held.id]
		switch job.Unique.Conflict {
		case queue.Keep:
			return queue.Receipt{ID: held.id, Existing: true}, ""
		case queue.Refuse:
			return queue.Receipt{ID: job.ID, Err: &queue.UniqueError{Key: job.Unique.Key, Holder: held.id}}, ""
		}
		if other != nil && (other.state == queue.Ready || other.state == queue.Active) && !declared[other.lane] {
			return r, other.lane
		}
		if other != nil && other.state != queue.Active && other.state != queue.Dead {
			w.replaced(other, job)
			return queue.Receipt{ID: held.id, Existing: true}, ""
		}
	}
	j := &twinTask{id: job.ID, lane: job.Lane, keep: job.Terms.Keep > 0}
	w.jobs[j.id] = j
	w.carries(j, job)
	if job.Delay > 0 {
		j.outside(queue.Scheduled, job.Delay.Milliseconds(), "")
	} else {
		w.ready(j)
	}
	return queue.Receipt{ID: j.id}, ""
}

// carries gives a job the data and the key of what was enqueued.
func (w *twin) carries(j *twinTask, job *queue.Job) {
	j.data, j.keep, j.unique = string(job.Data), job.Terms.Keep > 0, ""
	if key := job.Unique.Key; key != "" {
		j.unique = string(job.Unique.Until) + key
		w.unique[key] = twinKey{j.id, string(job.Unique.Until)}
	}
}

// replaced is a job that nobody has, and that carries from now on what another one would have.
func (w *twin) replaced(j *twinTask, job *queue.Job) {
	was := j.state
	if was == queue.Ready {
		w.leaves(j)
	}
	w.carries(j, job)
	j.attempts = 0
	if was == queue.Ready && job.Delay == 0 {
		w.ready(j)
	} else {
		j.outside(queue.Scheduled, job.Delay.Milliseconds(), "")
	}
}

// draw makes a job. Its id is of a process whose clock says anything.
func (m *model) draw() queue.Job {
	m.made++
	job := queue.Job{Lane: m.aLane(), Message: codec.Message{Data: fmt.Append(nil, m.made)}}
	if known := m.twin.selected(func(*twinTask) bool { return true }); len(known) > 0 && rapid.IntRange(0, 9).Draw(m.t, "known") == 0 {
		job.ID = rapid.SampledFrom(known).Draw(m.t, "job").id
	} else {
		id, err := codec.NewID(queue.Brand, rapid.Int64Range(1, 1<<62).Draw(m.t, "id"))
		require.NoError(m.t, err)
		job.ID = id
	}
	if m.lanes == 1 { // plain ones go the short way
		return job
	}
	if rapid.IntRange(0, 3).Draw(m.t, "delayed") == 0 {
		job.Delay = far
	}
	if rapid.IntRange(0, 3).Draw(m.t, "kept") == 0 {
		job.Terms.Keep = far
	}
	if rapid.IntRange(0, 2).Draw(m.t, "unique") == 0 {
		job.Unique = queue.Unique{
			Key:      rapid.SampledFrom([]string{"k", "l"}).Draw(m.t, "key"),
			Until:    rapid.SampledFrom([]queue.Until{queue.UntilDone, queue.UntilStarted, queue.UntilTime}).Draw(m.t, "until"),
			Conflict: rapid.SampledFrom([]queue.Conflict{queue.Keep, queue.Refuse, queue.Replace}).Draw(m.t, "conflict"),
		}
		if job.Unique.Until == queue.UntilTime {
			job.Unique.For = far
		}
	}
	return job
}

func (m *model) enqueue() {
	var jobs []queue.Job
	for range rapid.IntRange(1, 4).Draw(m.t, "jobs") {
		jobs = append(jobs, m.draw())
	}
	var got []queue.Receipt
	m.repeated(func() (err error) {
		got, err = m.f.jobs.EnqueueMany(m.f.ctx, jobs) // which sends it again itself
		require.False(m.t, tier.OutcomeUnknown(err))
		return err
	})
	require.Equal(m.t, m.twin.enqueue(jobs), got)
}

// pass lets the time of a job, or of a unique key, come, by the clock of the server and of nobody else.
func (m *model) pass() {
	q, f := m.f.queue, m.f
	jobs := m.twin.selected(func(j *twinTask) bool {
		return (j.state == queue.Scheduled || j.state == queue.Retry) && j.at > m.now
	})
	var keys []string
	for key, held := range m.twin.unique {
		if held.until == "p" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(jobs)+len(keys) == 0 {
		m.t.Skip("nothing is to come")
	}
	i := rapid.IntRange(0, len(jobs)+len(keys)-1).Draw(m.t, "what")
	if i < len(jobs) {
		j := jobs[i]
		letter := map[queue.State]string{queue.Scheduled: "s", queue.Retry: "r"}[j.state]
		j.at = m.now
		f.do("ZADD", q.JobsDueKey(), fmt.Sprint(j.at), j.id.String())
		f.do("HSET", q.JobsKey(), j.id.String(), fmt.Sprintf("%s %d %d %s", letter, j.at, j.attempts, j.lane))
		return
	}
	key := keys[i-len(jobs)]
	f.do("HSET", q.UniqueKey(), key, m.twin.unique[key].id.String()+" p 1000")
	delete(m.twin.unique, key)
}

// far is a time that does not come by itself.
const far = time.Hour

package queue_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// twin is what a dumb queue would hold: each job in one place, and lanes that are lists.
type twin struct {
	jobs    map[codec.ID]*twinTask // that are not done
	lanes   map[string]*twinLane
	unique  map[string]twinKey
	results map[codec.ID]queue.Outcome
	paused  bool
	ceiling int // of all that is active
	workers []*twinWorker
}

type twinTask struct {
	id         codec.ID
	data       string
	lane       string
	state      queue.State
	attempts   int // before it came to its lane; outside: all
	deliveries int // of an active one, in its lane
	owner      string
	lapsed     bool  // its lease has ended
	at         int64 // unix ms; of one outside
	unique     string
	keep       bool // what it comes to
	reason     string
	cancelled  string
}

func (j *twinTask) GoString() string { return fmt.Sprintf("{%+v}", *j) }

type twinLane struct {
	ready   []*twinTask
	ceiling int
	paused  bool
	look    bool // its leases are to be looked at
}

// twinKey is a unique key that is not free.
type twinKey struct {
	id    codec.ID
	until string
}

// twinWorker is a member, and what it knows.
type twinWorker struct {
	*queue.Member
	fenced bool
	within bool // its look has not come to an end
	holds  map[codec.EntryID]*twinTask
}

func (w *twinWorker) GoString() string { return fmt.Sprintf("%s fenced %v", w.Name(), w.fenced) }

func newTwin(lanes ...string) *twin {
	w := &twin{jobs: map[codec.ID]*twinTask{}, lanes: map[string]*twinLane{}, unique: map[string]twinKey{}, results: map[codec.ID]queue.Outcome{}}
	for _, lane := range lanes {
		w.lanes[lane] = &twinLane{}
	}
	return w
}

// select are jobs, by their ids.
func (w *twin) selected(is func(*twinTask) bool) (list []*twinTask) {
	for _, j := range w.jobs {
		if is(j) {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *twinTask) int { return strings.Compare(a.id.String(), b.id.String()) })
	return list
}

func (w *twin) inState(states ...queue.State) []*twinTask {
	return w.selected(func(j *twinTask) bool { return slices.Contains(states, j.state) })
}

func (w *twin) active(lane string) []*twinTask {
	return w.selected(func(j *twinTask) bool { return j.state == queue.Active && j.lane == lane })
}

// room is how many of the ready jobs of a lane may be handed out.
func (w *twin) room(lane string) int {
	l := w.lanes[lane]
	switch {
	case l.paused:
		return 0
	case l.ceiling == 0:
		return len(l.ready)
	}
	return max(0, min(len(l.ready), l.ceiling-len(w.active(lane))))
}

// rooms is how many of all.
func (w *twin) rooms() (n int) {
	for lane := range w.lanes {
		n += w.room(lane)
	}
	if w.ceiling == 0 {
		return n
	}
	return max(0, min(n, w.ceiling-len(w.inState(queue.Active))))
}

// due are the jobs that wait, the first due first.
func (w *twin) due(now int64) []*twinTask {
	list := w.selected(func(j *twinTask) bool {
		return (j.state == queue.Scheduled || j.state == queue.Retry) && j.at <= now
	})
	slices.SortStableFunc(list, func(a, b *twinTask) int { return cmp.Compare(a.at, b.at) })
	return list
}

func (w *twin) ready(j *twinTask) {
	j.state, j.at, j.reason = queue.Ready, 0, ""
	w.lanes[j.lane].ready = append(w.lanes[j.lane].ready, j)
}

// leaves takes a job out of the ready ones of its lane.
func (w *twin) leaves(j *twinTask) {
	l := w.lanes[j.lane]
	l.ready = slices.DeleteFunc(l.ready, func(other *twinTask) bool { return other == j })
}

func (w *twin) claimed(j *twinTask, by *twinWorker) {
	w.leaves(j)
	j.state, j.deliveries, j.owner = queue.Active, 1, by.Name()
	by.holds[j.id.HostEntry()] = j
	w.free(j, "s")
}

// free frees the unique key of a job that has it until such a moment.
func (w *twin) free(j *twinTask, until string) {
	if j.unique == "" || !strings.Contains(until, j.unique[:1]) {
		return
	}
	if key := j.unique[1:]; w.unique[key].id == j.id {
		delete(w.unique, key)
	}
}

func (w *twin) gone(j *twinTask) {
	if j.state == queue.Ready {
		w.leaves(j)
	}
	delete(w.jobs, j.id)
}

// outside puts a job that was active, or was not there, where it waits, after a delay that the check compares.
func (j *twinTask) outside(state queue.State, delay int64, reason string) {
	j.state, j.at, j.reason = state, -1-delay, reason
	j.deliveries, j.owner, j.lapsed = 0, "", false
}

// ended is what committing an ending comes to.
func (w *twin) ended(j *twinTask, e *tier.Ending) {
	cancelled := j.cancelled
	j.cancelled = ""
	switch {
	case len(e.Dead) > 0 && cancelled != "":
		w.dies(j, e.Dead[0].Attempts, "cancelled: "+cancelled)
	case len(e.Dead) > 0:
		w.dies(j, e.Dead[0].Attempts, e.Dead[0].Reason)
	case len(e.Open) > 0 && cancelled != "":
		w.dies(j, e.Open[0].Attempt, "cancelled: "+cancelled)
	case len(e.Open) > 0:
		j.attempts = e.Open[0].Attempt
		j.outside(queue.Retry, e.Open[0].Delay.Milliseconds(), e.Open[0].Reason)
	default:
		w.free(j, "sd")
		w.gone(j)
		if j.keep {
			w.results[j.id] = queue.Outcome{Done: true}
		}
		if j.keep && len(e.Outputs) > 0 {
			w.results[j.id] = queue.Outcome{Done: true, Result: e.Outputs[0].Value}
		}
	}
}

func (w *twin) dies(j *twinTask, attempts int, reason string) {
	w.free(j, "sd")
	j.attempts = attempts
	j.outside(queue.Dead, 0, reason)
	if j.keep {
		w.results[j.id] = queue.Outcome{Reason: reason}
	}
}

// removed is what removing comes to, of a job that nobody has.
func (w *twin) removed(j *twinTask) {
	w.free(j, "sdp")
	w.gone(j)
	delete(w.results, j.id)
}

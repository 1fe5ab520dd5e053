package queue

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// EventsType is the type of the messages that tell what became of jobs.
const EventsType = "jobs"

// What a job is, in events, beside the states of one that is not done.
const (
	Absent State = "absent" // before it is enqueued
	Done   State = "done"
	Gone   State = "gone" // it was removed, cancelled or drained, or its queue obliterated
)

// Event is what became of a job in one step. Its time is that of the message.
type Event struct {
	Job      codec.ID // zero: all jobs of the queue, which was obliterated
	From, To State    // the same, of an active one that another worker has now, of one that was changed, and of progress
	Lane     string   // where it is now, or was last
	By       string   // the worker, or the schedule; empty: that is not known
	Reason   string   // up to 200 bytes: why it failed, what was done to it, how far it is
	// After is how long it was From: a started job ready, by the server's clock; one that has ended an attempt with its worker, by
	// that one's. Below 0: not known.
	After time.Duration
}

// What is what happened, in a word.
type What string

// What happens to jobs.
const (
	Enqueued  What = "enqueued"
	Promoted  What = "promoted" // its time has come, or its children have ended
	Started   What = "started"
	TakenOver What = "taken over" // by another worker
	Completed What = "completed"
	Postponed What = "postponed" // its attempt failed and it is to be tried again, or it was put off
	Died      What = "died"      // it was given up
	Requeued  What = "requeued"
	Cancelled What = "cancelled"
	Removed   What = "removed"
	Changed   What = "changed" // it was moved, or carries something else
	Progress  What = "progress"
)

// What says what happened.
func (e *Event) What() What {
	cancelled := strings.HasPrefix(e.Reason, cancelledReason)
	switch {
	case e.To == Done:
		return Completed
	case e.From == e.To && strings.HasPrefix(e.Reason, progressReason):
		return Progress
	case cancelled && (e.To == Gone || e.To == Dead):
		return Cancelled
	case e.To == Gone:
		return Removed
	case e.To == Dead && e.From != Dead:
		return Died
	case e.From == Absent:
		return Enqueued
	case e.From == Active && e.To == Active:
		return TakenOver
	case e.To == Active:
		return Started
	case e.From == Active:
		return Postponed
	case e.From == Dead && e.To == Retry:
		return Requeued
	case e.From != Ready && e.To == Ready || e.From == Waiting && e.To == Scheduled:
		return Promoted
	}
	return Changed
}

// cancelledReason begins the reason of what ended for that it was cancelled; commit.lua and remove.lua write it.
const cancelledReason = "cancelled: "

// progressReason begins what was noted as the progress of a job; annotate.lua writes it.
const progressReason = "progress: "

// ErrNotEvents says that a message does not tell of jobs.
var ErrNotEvents = errors.New("queue: the message tells of no jobs")

// DecodeEvents reads what a message tells, in the order in which it happened. Of one that says that events begin, that is
// nothing. The error matches ErrNotEvents.
func DecodeEvents(m *codec.Message) ([]Event, error) {
	if m.Type != EventsType || m.Format != codec.FormatMsgpack {
		return nil, fmt.Errorf("%w: its type is %.64q", ErrNotEvents, m.Type)
	}
	d := msgpack.NewDecoder(bytes.NewReader(m.Data))
	n, err := d.DecodeArrayLen()
	var events []Event
	for i := 0; err == nil && i < n; i++ {
		events, err = decodeGroup(d, events)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEvents, err)
	}
	return events, nil
}

// eventGroup is how many elements a group has: from, to, lane, by, reason, jobs, and the ms of each, or none. More are left to
// later versions.
const eventGroup = 7

// decodeGroup reads jobs of which the same is told.
func decodeGroup(d *msgpack.Decoder, events []Event) ([]Event, error) {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	if n < eventGroup {
		return nil, fmt.Errorf("%d elements, want %d", n, eventGroup)
	}
	var texts [5]string
	for i := range texts {
		if texts[i], err = d.DecodeString(); err != nil {
			return nil, err
		}
	}
	first := len(events)
	jobs, err := d.DecodeArrayLen()
	for i := 0; err == nil && i < jobs; i++ {
		e := Event{From: State(texts[0]), To: State(texts[1]), Lane: texts[2], By: texts[3], Reason: texts[4], After: -1}
		var id string
		if id, err = d.DecodeString(); err == nil && id != "" {
			e.Job, err = codec.Parse(id)
		}
		events = append(events, e)
	}
	if err != nil {
		return nil, err
	}
	known, err := d.DecodeArrayLen()
	if err == nil && known > 0 && known != jobs {
		return nil, fmt.Errorf("the ms of %d jobs, and %d jobs", known, jobs)
	}
	for i := 0; err == nil && i < known; i++ {
		var ms int64
		if ms, err = d.DecodeInt64(); ms >= 0 {
			events[first+i].After = time.Duration(ms) * time.Millisecond
		}
	}
	for i := eventGroup; err == nil && i < n; i++ {
		err = d.Skip()
	}
	return events, err
}

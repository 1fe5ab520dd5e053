package queue

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Brand is that of every job's id.
const Brand codec.Brand = "JOB"

// DefaultLane is that of jobs that name none.
const DefaultLane = "default"

// maxJobBytes is what a job may weigh, encoded.
const maxJobBytes = 8 << 20

// Job is what is to be done: a message, whose type says which handler does it, and when and where.
type Job struct {
	codec.Message
	// ID is minted when it is zero. One that the caller brings makes the call one that can be repeated for as long as the job
	// is not done.
	ID codec.ID
	// Lane is a name. Default "default". Lanes take turns.
	Lane string
	// Delay is how long the job waits, from when it has reached the server, by whose clock.
	Delay time.Duration
	// Terms are what its worker is to keep to.
	Terms tier.Terms
	// Unique is that of the job's unique key, of which there is one job at a time. The zero value: none.
	Unique Unique
	// At is when the job is ready, by the server's clock. It is not used together with Delay.
	At time.Time
}

// encoded is a job as it is sent.
type encoded struct {
	id      codec.ID
	lane    string
	due     string // as enqueue.lua takes it
	message string
	options string
	unique  string // as enqueue.lua takes them
	policy  string
	also    string // a lane to be declared besides its own
}

func (e *encoded) bytes() int {
	return len(e.message) + len(e.options) + len(e.unique) + len(e.lane) + len(e.id) + 32
}

// width is how many words enqueue.lua needs of the job, in whose call the lane is the first one or not.
func (e *encoded) width(first bool) int {
	switch {
	case e.unique != "":
		return 7
	case e.due != "":
		return 5
	case e.options != "":
		return 4
	case !first:
		return 3
	}
	return 2
}

// encode refuses what is no job.
func (j *Job) encode() (encoded, error) {
	e := encoded{id: j.ID, lane: j.Lane}
	if e.lane == "" {
		e.lane = DefaultLane
	}
	if err := tier.CheckName("lane", e.lane); err != nil {
		return e, err
	}
	if !j.ID.IsZero() && j.ID.Brand() != Brand {
		return e, &KindError{j.ID}
	}
	switch {
	case j.Delay < 0 || j.Delay > 0 && !j.At.IsZero():
		return e, fmt.Errorf("%w: a job has a Delay that is not below 0, or an At", ErrBadCall)
	case j.Delay > 0:
		e.due = "+" + millis(max(j.Delay, time.Millisecond))
	case !j.At.IsZero():
		e.due = strconv.FormatInt(max(0, j.At.UnixMilli()), 10)
	}
	var err error
	if e.message, err = encodeMessage(&j.Message); err != nil {
		return e, err
	}
	if e.options, err = optionsOf(&j.Terms); err != nil {
		return e, err
	}
	e.unique, e.policy, err = j.Unique.encode()
	return e, err
}

func encodeMessage(m *codec.Message) (string, error) {
	text, err := codec.AppendMessage(make([]byte, 0, m.Size()), m)
	if err == nil && len(text) > maxJobBytes {
		err = &TooLargeError{Bytes: len(text), Max: maxJobBytes}
	}
	return unsafe.String(unsafe.SliceData(text), len(text)), err // nobody else has it
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// State is where a job is.
type State string

// The states of a job that is not done.
const (
	Ready     State = "ready"     // in its lane, nobody has it
	Active    State = "active"    // in its lane, leased by a worker
	Scheduled State = "scheduled" // until its time comes
	Retry     State = "retry"     // the same, after an attempt that failed or was put off
	Waiting   State = "waiting"   // until its children have ended
	Dead      State = "dead"      // given up
)

// row is what the hash of jobs says of one: 'entry lane' in a lane, else 'letter ms attempts lane'.
type row struct {
	state    State // Ready for Active, too
	lane     string
	entry    string
	at       time.Time // due, or died; of a waiting one: not due before
	attempts int
}

var letters = map[string]State{"s": Scheduled, "r": Retry, "w": Waiting, "d": Dead}

func parseRow(text string) (row, bool) {
	words := strings.Split(text, " ")
	if len(words) == 2 {
		_, err := codec.ParseEntryID(words[0])
		return row{state: Ready, entry: words[0], lane: words[1]}, err == nil
	}
	if len(words) != 4 {
		return row{}, false
	}
	ms, err1 := strconv.ParseInt(words[1], 10, 64)
	attempts, err2 := strconv.Atoi(words[2])
	state := letters[words[0]]
	return row{state: state, lane: words[3], at: time.UnixMilli(ms).UTC(), attempts: attempts}, err1 == nil && err2 == nil && state != ""
}

package queue

import (
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Flow is a tree of jobs: a job that waits for its children, each of which may have children of its own, in any queue. The
// job is due once the last child has ended; a flow without children is a job.
type Flow struct {
	// Job is what is to be done when the children have ended; its Delay or At has to have passed as well. Its ID is minted when
	// it is zero, and set here: enqueueing the flow again is the same call then.
	Job
	// Queue of the job. Default: that of its parent; of the first job that of the client.
	Queue string
	// Policy is what it is to the parent when this job does not complete.
	Policy   Policy
	Children []*Flow
}

// Policy says what it is to a parent that waits when a child ends otherwise than completed. The zero value fails it, whatever
// the child came to: a parent runs when all that it needs is there.
type Policy struct {
	Dead      Effect // it was given up
	Cancelled Effect
	Expired   Effect // its deadline has passed
	Removed   Effect // by an operator; or it could not be enqueued, since there was a job of its id
}

// Effect is what becomes of a parent that waits. Whether it fails or goes on, its other children are not touched.
type Effect string

// What becomes of it. The zero value is Fail.
const (
	Fail     Effect = "f" // it is dead, with the child and its reason as why; that is what its own parent is told
	Ignore   Effect = "i" // the child counts as ended, and the others are waited for
	Continue Effect = "c" // it is due at once, whatever other children are still open
)

// Everywhere is the policy of one effect, however a child ends.
func Everywhere(e Effect) Policy { return Policy{Dead: e, Cancelled: e, Expired: e, Removed: e} }

// text is a policy as note.lua reads it: a letter for each outcome.
func (p Policy) text() (string, error) {
	text := ""
	for _, e := range []Effect{p.Dead, p.Cancelled, p.Expired, p.Removed} {
		switch e {
		case "":
			e = Fail
		case Fail, Ignore, Continue:
		default:
			return "", fmt.Errorf("%w: there is no effect %.16q", ErrBadCall, e)
		}
		text += string(e)
	}
	return text, nil
}

// Chain is a flow of jobs that are done one after another, each when the one before it has completed, whose result it can
// read. It is nil of no jobs.
func Chain(jobs ...Job) (last *Flow) {
	for _, job := range jobs {
		next := &Flow{Job: job}
		if last != nil {
			next.Children = []*Flow{last}
		}
		last = next
	}
	return last
}

// FanIn is a flow of jobs that are done side by side, and one that is done when all of them have completed.
func FanIn(last Job, jobs ...Job) *Flow {
	f := &Flow{Job: last}
	for _, job := range jobs {
		f.Children = append(f.Children, &Flow{Job: job})
	}
	return f
}

// Bounds of a flow.
const (
	maxFlowDepth = 100
	maxFlowJobs  = 4096
)

// FlowDepthError says that a flow has more levels than one may have.
type FlowDepthError struct{ Max int }

func (e *FlowDepthError) Error() string {
	return fmt.Sprintf("queue: the flow has more than %d levels", e.Max)
}

// FlowSizeError says that a flow has more jobs than one may have.
type FlowSizeError struct{ Max int }

func (e *FlowSizeError) Error() string {
	return fmt.Sprintf("queue: the flow has more than %d jobs: let a job of it enqueue another flow", e.Max)
}

// FlowCycleError says that a job would wait for itself, or have two parents: it stands in the flow twice.
type FlowCycleError struct {
	ID   codec.ID // zero: it has none yet, and is the same *Flow
	Type string
}

func (e *FlowCycleError) Error() string {
	return fmt.Sprintf("queue: the job %s of type %.64q stands in the flow twice", e.ID, e.Type)
}

// flowNode is a job of a flow as it is sent, and as the outbox keeps one of another queue: a msgpack array.
type flowNode struct {
	_msgpack struct{} `msgpack:",as_array"` //lint:ignore U1000 the library looks for it by reflection

	ID       string
	Queue    string
	Policy   string
	Lane     string
	Due      string
	Message  string
	Options  string
	Children []flowNode
}

// survey checks flows and lists them, parents first.
type survey struct {
	flows []*Flow
	seen  map[*Flow]bool
	ids   map[codec.ID]bool
	bytes int
}

func (s *survey) visit(f *Flow, queue string, depth int) (n flowNode, err error) {
	switch {
	case f == nil:
		return n, fmt.Errorf("%w: a flow is nil", ErrBadCall)
	case s.seen[f] || !f.ID.IsZero() && s.ids[f.ID]:
		return n, &FlowCycleError{ID: f.ID, Type: f.Type}
	case depth > maxFlowDepth:
		return n, &FlowDepthError{Max: maxFlowDepth}
	case len(s.flows) == maxFlowJobs:
		return n, &FlowSizeError{Max: maxFlowJobs}
	}
	s.flows = append(s.flows, f)
	s.seen[f], s.ids[f.ID] = true, true
	if n.Queue = f.Queue; n.Queue == "" {
		n.Queue = queue
	}
	if err = tier.CheckName("scope", n.Queue); err != nil {
		return n, err
	}
	e, err := f.encode()
	if err != nil {
		return n, err
	}
	if s.bytes += e.bytes(); s.bytes > maxJobBytes {
		return n, &TooLargeError{Bytes: s.bytes, Max: maxJobBytes}
	}
	if e.unique != "" {
		return n, fmt.Errorf("%w: a job of a flow has no unique key", ErrBadCall)
	}
	n.Lane, n.Due, n.Message, n.Options = e.lane, e.due, e.message, e.options
	if n.Policy, err = f.Policy.text(); err != nil {
		return n, err
	}
	for _, child := range f.Children {
		c, err := s.visit(child, n.Queue, depth+1)
		if err != nil {
			return n, err
		}
		n.Children = append(n.Children, c)
	}
	return n, nil
}

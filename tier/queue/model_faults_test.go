package queue_test

import (
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// faultKind is what becomes of a script, or of a transaction.
type faultKind int

const (
	noFault faultKind = iota
	replyLost
	requestLost
)

// fault loses one of the next scripts.
type fault struct {
	mu   sync.Mutex
	kind faultKind
	left int // scripts that pass before
	hit  bool
}

func newFault(proxy *tiertest.Proxy) *fault {
	f := &fault{}
	const always = 1 << 30
	proxy.DropReplies(always, func(cmd []string) bool { return f.meets(replyLost, cmd) })
	proxy.DropRequests(always, func(cmd []string) bool { return f.meets(requestLost, cmd) })
	return f
}

func (f *fault) meets(kind faultKind, cmd []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kind != kind || f.hit || !strings.HasPrefix(cmd[0], "EVAL") && cmd[0] != "EXEC" {
		return false
	}
	f.left--
	f.hit = f.left < 0
	return f.hit
}

// arm lets one script be lost, or none, and tells whether the one before was.
func (f *fault) arm(kind faultKind, after int) (hit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit, f.hit, f.kind, f.left = f.hit, false, kind, after
	return hit
}

// perhaps draws a fault for what follows: one in five times.
func (m *model) perhaps() {
	kind := noFault
	if rapid.IntRange(0, 4).Draw(m.t, "fault") == 0 {
		kind = rapid.SampledFrom([]faultKind{replyLost, requestLost}).Draw(m.t, "which")
	}
	m.fault.arm(kind, rapid.SampledFrom([]int{0, 0, 1}).Draw(m.t, "script"))
}

// repeated makes a call, perhaps through a fault, until it is answered, and tells whether that took more than one.
func (m *model) repeated(call func() error) (again bool, err error) {
	m.perhaps()
	defer m.fault.arm(noFault, 0)
	for err = call(); tier.OutcomeUnknown(err); err = call() {
		again = true
	}
	return again, err
}

// attempt is repeated, of a member. It may die with the fault: then nobody knows what was done.
func (m *model) attempt(w *twinWorker, call func() error) (dies bool, err error) {
	m.perhaps()
	defer m.fault.arm(noFault, 0)
	for err = call(); tier.OutcomeUnknown(err); err = call() {
		if rapid.Bool().Draw(m.t, "dies") {
			m.dies(w)
			return true, nil
		}
	}
	return false, err
}

// dies lets a member be heard of no more.
func (m *model) dies(w *twinWorker) {
	m.dead = append(m.dead, w.Name())
	m.without(w)
}

func (m *model) without(w *twinWorker) {
	m.twin.workers = slices.DeleteFunc(m.twin.workers, func(other *twinWorker) bool { return other == w })
	if len(m.twin.workers) == 0 {
		m.joins()
	}
}

// bodyOf is what a job holds outside its lane.
func bodyOf(t require.TestingT, text string) (body []string) {
	require.NoError(t, msgpack.Unmarshal([]byte(text), &body))
	return body
}

func entriesOfTasks(list []*twinTask) (entries []codec.EntryID) {
	for _, j := range list {
		entries = append(entries, j.id.HostEntry())
	}
	return entries
}

package stream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// cursorModel runs the same calls on a cursor and on its twin.
type cursorModel struct {
	f       *fixture
	t       *rapid.T
	proxy   *tiertest.Proxy
	commits func(cmd []string) bool
	twin    *cursorTwin
	w       *stream.Writer
	c       *stream.Cursor
}

// TestCursorModel: three members of a cursor, and what they, an operator, retention, time and a bad network can do, against a
// dumb twin that does the same in memory. There are never two owners whose commits count, and what another commits changes
// nothing; each entry is through once, and so are its outputs; the checkpoint does not go back; and nothing is given out
// before what stands before it.
func TestCursorModel(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	advance, commit := runs(sources(t)["advance"]), runs(sources(t)["commit"])
	f.load(sources(t)["advance"])
	f.load(sources(t)["commit"])
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		f.address = fmt.Sprintf("%s/orders%d", f.addr().Scope, n)
		m := &cursorModel{f: f, t: t, proxy: proxy, twin: &cursorTwin{}}
		m.commits = func(cmd []string) bool { return advance(cmd) || commit(cmd) }
		defer f.do("DEL", tier.ScopeKey(f.addr().Scope)) // for its brands
		defer f.do("DEL", f.log())
		defer f.do("DEL", m.out().LogKey())
		m.w, m.c = f.writer(stream.WriterConfig{}), f.cursor("c", stream.Head(), time.Minute)
		m.append(3)
		m.twin.anew()
		for range 3 {
			m.join()
		}
		for range 4 { // an owner is to go through much
			t.Repeat(m.actions())
		}
		m.finish()
	})
}

func (m *cursorModel) actions() map[string]func(*rapid.T) {
	again := rapid.Bool()
	return map[string]func(*rapid.T){
		"":            func(*rapid.T) { m.check() },
		"append":      func(t *rapid.T) { m.append(rapid.IntRange(1, 5).Draw(t, "n")) },
		"sync":        func(*rapid.T) { m.sync(m.member()) },
		"take over":   func(*rapid.T) { m.expire(); m.sync(m.member()) },
		"read":        func(t *rapid.T) { m.read(m.member(), rapid.IntRange(1, 6).Draw(t, "n")) },
		"commit":      func(*rapid.T) { x := m.busy(); m.commit(x, m.endings(x)) },
		"lost reply":  func(t *rapid.T) { m.lose(m.busy(), true, again.Draw(t, "again")) },
		"lost commit": func(t *rapid.T) { m.lose(m.busy(), false, again.Draw(t, "again")) },
		"due":         func(*rapid.T) { m.due(m.member()) },
		"renew":       func(*rapid.T) { m.renew(m.member()) },
		"leave":       func(*rapid.T) { m.leave(m.member()) },
		"trim":        func(t *rapid.T) { m.trim(rapid.IntRange(0, 20).Draw(t, "keep")) },
		"operate": func(t *rapid.T) {
			rapid.SampledFrom([]func(){m.pause, m.resume, m.resume, m.reset, m.remove}).Draw(t, "verb")()
		},
	}
}

// member is any of the three, the owner as likely as the others together.
func (m *cursorModel) member() *twinOwner {
	if m.twin.owner != nil && rapid.Bool().Draw(m.t, "the owner") {
		return m.twin.owner
	}
	return rapid.SampledFrom(m.twin.members).Draw(m.t, "member")
}

// busy is one that holds something, if it can be.
func (m *cursorModel) busy() *twinOwner {
	x := m.member()
	if len(x.holds) == 0 {
		m.read(x, 4)
	}
	return x
}

func (m *cursorModel) out() tier.Address {
	return tier.Address{Scope: m.f.addr().Scope, Stream: m.f.addr().Stream + "-out"}
}

func (m *cursorModel) state() string { return fmt.Sprintf("%s-%d", m.f.addr().Stream, m.twin.made) }

func (m *cursorModel) append(n int) {
	for _, id := range m.f.append(m.w, n) {
		m.twin.log = append(m.twin.log, id.ServerEntry())
	}
}

func (m *cursorModel) join() {
	real, err := m.c.Join(m.f.ctx, "m")
	require.NoError(m.t, err)
	x := &twinOwner{real: real}
	m.twin.members = append(m.twin.members, x)
	m.twin.gone = false
	m.asked(x, nil)
}

// asked compares what a member was told with what it had to be told.
func (m *cursorModel) asked(x *twinOwner, held []tier.Held) {
	epoch, _ := x.real.Standing()
	switch c := m.twin; {
	case c.owner == x:
		require.Equal(m.t, c.epoch, epoch, "it owns the cursor still")
		c.expired, x.unsure = false, x.unsent != nil
	case c.owner != nil && !c.expired:
		require.Zero(m.t, epoch, "another owns it")
		x.begin(0)
	default:
		require.Greater(m.t, epoch, c.epoch, "nobody does")
		c.acquire(x, epoch)
	}
	x.paused = m.twin.paused
	require.ElementsMatch(m.t, x.holds, idsHeld(held))
}

func (m *cursorModel) sync(x *twinOwner) {
	held, err := x.real.Sync(m.f.ctx)
	if m.twin.gone {
		require.ErrorIs(m.t, err, stream.ErrCursorDeleted)
		m.twin.members = slices.DeleteFunc(m.twin.members, func(y *twinOwner) bool { return y == x })
		m.join()
		return
	}
	require.NoError(m.t, err)
	m.asked(x, held)
}

// refused says whether the call had to be refused, and was.
func (m *cursorModel) refused(x *twinOwner, err error) bool {
	if !m.twin.effective(x) {
		require.ErrorIs(m.t, err, tier.ErrFenced)
		return true
	}
	require.NoError(m.t, err)
	return false
}

// read: to who stands by, a read may bring the ownership, so only those read that believe to have it. One that is wrong
// may be given entries, with which it can do nothing.
func (m *cursorModel) read(x *twinOwner, n int) {
	if x.epoch == 0 {
		return
	}
	got, err := x.real.Read(m.f.ctx, n, 0)
	if m.twin.effective(x) || err != nil {
		m.refused(x, err)
	}
	for i := range got {
		e := got[i].Entry
		if m.twin.effective(x) {
			require.False(m.t, x.paused, "it knows of the pause")
			require.False(m.t, m.twin.through[e], "%s is through", e)
			require.Nil(m.t, m.twin.parked[e], "%s is parked", e)
			require.NotContains(m.t, x.holds, e, "%s was given out already", e)
			require.True(m.t, m.twin.isNext(x, e), "%s comes before one that stands before it", e)
			x.last = e
			m.twin.expired = m.twin.expired && m.f.row("c", "until") == "1" // it may have renewed its lease
		}
		x.give(e, got[i].Deliveries)
	}
}

// endings ends some of what a member holds, in any way.
func (m *cursorModel) endings(x *twinOwner) (list []tier.Ending) {
	for _, e := range x.holds {
		n := x.count[e]
		end := tier.Ending{Entry: e, Deliveries: n}
		switch rapid.IntRange(0, 7).Draw(m.t, "ending") {
		case 0: // settled
		case 1, 2:
			end.Open = []tier.Open{{Attempt: n}}
		case 3:
			end.Dead = []tier.Letter{{Index: -1, Reason: "no", Attempts: n}}
		case 4:
			end.Outputs = []tier.Output{tier.HashIncrement(m.state(), e.String(), 1), tier.AppendTo(m.out().String(), codec.Message{Key: "k"})}
		default:
			continue
		}
		list = append(list, end)
	}
	return list
}

// tell makes the call that says how deliveries have ended.
func (m *cursorModel) tell(x *twinOwner, list []tier.Ending) error {
	var ids []codec.EntryID
	telling := false
	for _, e := range list {
		ids = append(ids, e.Entry)
		telling = telling || len(e.Open)+len(e.Dead)+len(e.Outputs) > 0
	}
	if !telling {
		_, err := x.real.Settle(m.f.ctx, ids)
		return err
	}
	return x.real.Commit(m.f.ctx, list)
}

func (m *cursorModel) commit(x *twinOwner, list []tier.Ending) {
	if len(list) == 0 || m.refused(x, m.tell(x, list)) {
		return
	}
	m.twin.end(x, x.unsent)
	m.twin.end(x, list)
	x.unsent, x.unsure = nil, false
}

// lose commits over a network that loses the reply, or the commit, and perhaps again.
func (m *cursorModel) lose(x *twinOwner, delivers, again bool) {
	list := m.endings(x)
	if x.unsure || x.epoch == 0 || len(list) == 0 {
		return
	}
	if delivers {
		m.proxy.DropNextReply(m.commits)
	} else {
		m.proxy.DropRequests(1, m.commits)
	}
	err := m.tell(x, list)
	require.True(m.t, tier.OutcomeUnknown(err), "%v", err)
	x.unsure = true
	switch {
	case !delivers:
		x.unsent = list
	case m.twin.effective(x):
		m.twin.end(x, list)
	}
	if again {
		m.commit(x, list)
	}
}

func (m *cursorModel) due(x *twinOwner) {
	got, err := x.real.Due(m.f.ctx, 1000)
	if x.epoch == 0 {
		require.Empty(m.t, entriesOf(got.Leased))
		return
	}
	if m.refused(x, err) {
		return
	}
	x.paused = m.twin.paused
	require.Equal(m.t, x.paused, got.Paused)
	_, upTo := x.real.Standing()
	if upTo.Compare(x.last) < 0 {
		upTo = x.last
	}
	m.takesUp(x, got, upTo)
}

func (m *cursorModel) renew(x *twinOwner) {
	_, err := x.real.Renew(m.f.ctx, nil)
	if x.epoch > 0 && !m.refused(x, err) {
		m.twin.expired, x.paused = false, m.twin.paused
	}
}

// leave: what it was handed out and has not settled keeps a member.
func (m *cursorModel) leave(x *twinOwner) {
	if x.unsure {
		return
	}
	require.NoError(m.t, x.real.Leave(m.f.ctx))
	if x.epoch == 0 || len(x.holds) > 0 {
		return
	}
	if m.twin.effective(x) {
		m.twin.owner, m.twin.expired = nil, false
	}
	x.begin(0)
}

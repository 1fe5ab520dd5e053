package stream_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// groupTwin is a dumb group: which entries there are, and who holds which.
type groupTwin struct {
	log     []codec.EntryID // ever appended
	trimmed int             // of these, from the front
	read    int             // of these, given to somebody
	pending map[codec.EntryID]*twinPend
	dead    int
	members []*twinMember
}

type twinPend struct {
	owner      *twinMember
	deliveries int
	old        bool // its lease has ended
}

type twinMember struct {
	real   *stream.Member
	number int // in the owner hash
	knows  int // as of its last Sync
	cursor codec.EntryID
	holds  []tier.Held // what it believes to hold
}

func (g *groupTwin) exists(e codec.EntryID) bool {
	return slices.Contains(g.log[g.trimmed:], e)
}

// held is what a member holds, by the pending list.
func (g *groupTwin) held(m *twinMember) []tier.Held {
	held := []tier.Held{}
	for _, e := range g.log {
		if p := g.pending[e]; p != nil && p.owner == m {
			held = append(held, tier.Held{Entry: e, Deliveries: p.deliveries})
		}
	}
	return held
}

// groupModel runs the same calls on a group and on its twin.
type groupModel struct {
	f    *fixture
	t    *rapid.T
	twin *groupTwin
	w    *stream.Writer
	g    *stream.Group
}

// TestGroupModel: three members of a group, and everything that they, a raw client, retention and time can do, against a
// dumb twin that does the same in memory. Answers agree, pending lists agree, and in the end each entry was settled,
// buried or trimmed.
func TestGroupModel(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Redis))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		f.address = fmt.Sprintf("%s/orders%d", f.addr().Scope, n)
		defer f.do("DEL", tier.ScopeKey(f.addr().Scope)) // for its brands
		defer f.do("DEL", f.log())
		defer f.do("DEL", f.addr().OwnersKey("g"))
		m := &groupModel{f: f, t: t, twin: &groupTwin{pending: map[codec.EntryID]*twinPend{}}}
		m.w, m.g = f.writer(stream.WriterConfig{}), f.group("g", stream.Head(), lease)
		m.append(1)
		for range 3 {
			m.join()
		}
		t.Repeat(m.actions())
		m.finish()
	})
}

func (m *groupModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         func(*rapid.T) { m.check() },
		"append":   func(t *rapid.T) { m.append(rapid.IntRange(1, 5).Draw(t, "n")) },
		"read":     func(t *rapid.T) { m.read(m.member(), rapid.IntRange(1, 6).Draw(t, "n")) },
		"settle":   func(t *rapid.T) { m.settle(m.member()) },
		"renew":    func(t *rapid.T) { m.renew(m.member()) },
		"release":  func(t *rapid.T) { m.release(m.member(), rapid.Bool().Draw(t, "at once")) },
		"bury":     func(t *rapid.T) { m.bury(m.member()) },
		"takeover": func(t *rapid.T) { m.takeOver(m.member(), rapid.IntRange(1, 4).Draw(t, "n")) },
		"sync":     func(t *rapid.T) { m.sync(m.member()) },
		"leave":    func(t *rapid.T) { m.leave(m.member()) },
		"age":      func(t *rapid.T) { m.age() },
		"trim":     func(t *rapid.T) { m.trim(rapid.IntRange(0, 6).Draw(t, "keep")) },
		"raw ack":  func(t *rapid.T) { m.rawAck() },
	}
}

func (m *groupModel) member() *twinMember {
	return rapid.SampledFrom(m.twin.members).Draw(m.t, "member")
}

// some is a part of what the member believes to hold.
func (m *groupModel) some(x *twinMember) []tier.Held {
	if len(x.holds) == 0 {
		return nil
	}
	return x.holds[:rapid.IntRange(0, len(x.holds)).Draw(m.t, "of what it holds")]
}

func (m *groupModel) append(n int) {
	for _, id := range m.f.append(m.w, n) {
		m.twin.log = append(m.twin.log, id.ServerEntry())
	}
}

func (m *groupModel) join() {
	real, err := m.g.Join(m.f.ctx, "m")
	require.NoError(m.t, err)
	m.twin.members = append(m.twin.members, &twinMember{real: real})
}

func (m *groupModel) read(x *twinMember, n int) {
	got, err := x.real.Read(m.f.ctx, n, 0)
	require.NoError(m.t, err)
	m.twin.read = max(m.twin.read, m.twin.trimmed)
	want := m.twin.log[m.twin.read:min(len(m.twin.log), m.twin.read+n)]
	m.twin.read += len(want)
	for _, e := range want {
		m.twin.pending[e] = &twinPend{owner: x, deliveries: 1}
		x.holds = append(x.holds, tier.Held{Entry: e, Deliveries: 1})
	}
	require.ElementsMatch(m.t, want, entriesOf(got))
}

// fenced says whether the call had to be refused, and was.
func (m *groupModel) fenced(x *twinMember, err error) bool {
	if x.knows != x.number {
		require.ErrorIs(m.t, err, tier.ErrFenced)
		return true
	}
	require.NoError(m.t, err)
	return false
}

func (m *groupModel) forget(x *twinMember, done []codec.EntryID) {
	x.holds = slices.DeleteFunc(x.holds, func(h tier.Held) bool { return slices.Contains(done, h.Entry) })
}

func (m *groupModel) settle(x *twinMember) {
	some := idsHeld(m.some(x))
	if len(some) == 0 {
		return
	}
	acked, err := x.real.Settle(m.f.ctx, some)
	if m.fenced(x, err) {
		return
	}
	want := 0
	for _, e := range some {
		if m.twin.pending[e] != nil {
			require.Equal(m.t, x, m.twin.pending[e].owner, "it was let settle another's entry")
			delete(m.twin.pending, e)
			want++
		}
	}
	require.Equal(m.t, want, acked)
	m.forget(x, some)
}

// touch is what XCLAIM does: what is trimmed is no longer pending.
func (m *groupModel) touch(e codec.EntryID) *twinPend {
	if !m.twin.exists(e) {
		delete(m.twin.pending, e)
	}
	return m.twin.pending[e]
}

func (m *groupModel) renew(x *twinMember) {
	some := idsHeld(m.some(x))
	gone, err := x.real.Renew(m.f.ctx, some)
	if m.fenced(x, err) {
		return
	}
	var want []codec.EntryID
	for _, e := range some {
		if p := m.touch(e); p != nil {
			require.Equal(m.t, x, p.owner, "it was let renew another's entry")
			p.old = false
		} else {
			want = append(want, e)
		}
	}
	require.ElementsMatch(m.t, want, gone)
	m.forget(x, gone)
}

func (m *groupModel) release(x *twinMember, atOnce bool) {
	some := slices.Clone(m.some(x))
	delay := lease
	if atOnce {
		delay = 0
	}
	for i := range some {
		some[i].Deliveries = max(0, some[i].Deliveries-1)
	}
	err := x.real.Release(m.f.ctx, returned(some), delay)
	if len(some) == 0 || m.fenced(x, err) {
		return
	}
	for _, h := range some {
		if p := m.touch(h.Entry); p != nil {
			require.Equal(m.t, x, p.owner)
			p.old, p.deliveries = atOnce, h.Deliveries
		}
	}
	m.forget(x, idsHeld(some))
}

func (m *groupModel) bury(x *twinMember) {
	some := m.some(x)
	err := x.real.Commit(m.f.ctx, lettersOf(some, "r"))
	if len(some) == 0 || m.fenced(x, err) {
		return
	}
	for _, h := range some {
		if m.twin.pending[h.Entry] != nil {
			delete(m.twin.pending, h.Entry)
			m.twin.dead++
		}
	}
	m.forget(x, idsHeld(slices.Clone(some)))
}

func (m *groupModel) takeOver(x *twinMember, n int) {
	got, err := x.real.TakeOver(m.f.ctx, n, allSuspects)
	if m.fenced(x, err) {
		return
	}
	var rows []codec.EntryID // of the pending list, from the cursor on
	for _, e := range m.twin.log {
		if m.twin.pending[e] != nil && e.Compare(x.cursor) > 0 {
			rows = append(rows, e)
		}
	}
	var taken, lost []codec.EntryID
	losers := map[*twinMember]bool{}
	looked := 0
	for _, e := range rows {
		if len(taken)+len(lost) == n {
			break
		}
		looked++
		p := m.twin.pending[e]
		if !p.old {
			continue
		}
		if p.owner != x {
			losers[p.owner] = true
		}
		if m.touch(e) == nil {
			lost = append(lost, e)
			continue
		}
		taken = append(taken, e)
		m.twin.pending[e] = &twinPend{owner: x, deliveries: p.deliveries + 1}
	}
	for loser := range losers {
		loser.number++
	}
	if looked < len(rows) {
		require.False(m.t, got.Done)
		x.cursor = rows[looked-1]
	} else {
		require.True(m.t, got.Done)
		x.cursor = codec.EntryID{}
	}
	require.ElementsMatch(m.t, taken, entriesOf(got.Leased))
	require.ElementsMatch(m.t, lost, got.Lost)
	m.forget(x, append(slices.Clone(taken), lost...))
	for _, l := range got.Leased {
		require.Equal(m.t, m.twin.pending[l.Entry].deliveries, l.Deliveries)
		x.holds = append(x.holds, tier.Held{Entry: l.Entry, Deliveries: l.Deliveries})
	}
}

func (m *groupModel) sync(x *twinMember) {
	held, err := x.real.Sync(m.f.ctx)
	require.NoError(m.t, err)
	require.Equal(m.t, m.twin.held(x), held)
	x.knows, x.holds, x.cursor = x.number, held, codec.EntryID{}
}

func (m *groupModel) leave(x *twinMember) {
	require.NoError(m.t, x.real.Leave(m.f.ctx))
	if len(m.twin.held(x)) > 0 {
		return
	}
	m.twin.members = slices.DeleteFunc(m.twin.members, func(y *twinMember) bool { return y == x })
	m.join()
}

func (m *groupModel) age() {
	for e, p := range m.twin.pending {
		if !p.old && m.twin.exists(e) && rapid.Bool().Draw(m.t, "this one") {
			m.f.do("XCLAIM", m.f.log(), "g", p.owner.real.Name(), "0", e.String(), "IDLE", strconv.FormatInt(lease.Milliseconds(), 10), "RETRYCOUNT", strconv.Itoa(p.deliveries), "JUSTID")
			p.old = true
		}
	}
}

func (m *groupModel) trim(keep int) {
	m.f.do("XTRIM", m.f.log(), "MAXLEN", strconv.Itoa(keep))
	m.twin.trimmed = max(m.twin.trimmed, len(m.twin.log)-keep)
}

func (m *groupModel) rawAck() {
	for _, e := range m.twin.log {
		if m.twin.pending[e] != nil {
			m.f.do("XACK", m.f.log(), "g", e.String())
			delete(m.twin.pending, e)
			return
		}
	}
}

func (m *groupModel) check() {
	type row struct {
		owner      string
		deliveries int
		old        bool
	}
	want, got := map[codec.EntryID]row{}, map[codec.EntryID]row{}
	for e, p := range m.twin.pending {
		want[e] = row{p.owner.real.Name(), p.deliveries, p.old}
	}
	for _, p := range m.f.pending("g") {
		got[p.entry] = row{p.consumer, p.deliveries, p.idle >= lease}
	}
	require.Equal(m.t, want, got)
	require.Equal(m.t, strconv.Itoa(m.twin.dead), m.f.text("XLEN", m.f.addr().DeadKey("g")))
}

// finish: whatever happened, one member that goes on gets everything settled.
func (m *groupModel) finish() {
	x := m.twin.members[0]
	for range 100 {
		m.sync(x)
		m.settleAll(x)
		m.read(x, 100)
		m.settleAll(x)
		for e, p := range m.twin.pending {
			if !p.old && m.twin.exists(e) {
				m.f.do("XCLAIM", m.f.log(), "g", p.owner.real.Name(), "0", e.String(), "IDLE", strconv.FormatInt(lease.Milliseconds(), 10), "RETRYCOUNT", strconv.Itoa(p.deliveries), "JUSTID")
				p.old = true
			} else if !m.twin.exists(e) {
				p.old = true // it will be, by itself
				delete(m.twin.pending, e)
				m.f.do("XACK", m.f.log(), "g", e.String())
			}
		}
		if len(m.twin.pending) == 0 {
			break
		}
		m.takeOver(x, 100)
	}
	require.Empty(m.t, m.f.pending("g"))
	require.Equal(m.t, len(m.twin.log), max(m.twin.read, m.twin.trimmed))
}

func (m *groupModel) settleAll(x *twinMember) {
	if len(x.holds) == 0 {
		return
	}
	ids := idsHeld(x.holds)
	_, err := x.real.Settle(m.f.ctx, ids)
	require.NoError(m.t, err)
	for _, e := range ids {
		delete(m.twin.pending, e)
	}
	x.holds = nil
}

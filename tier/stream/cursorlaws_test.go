package stream_test

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// What happens to a cursor and its twin from outside, and what holds after each step.

// expire lets the owner's lease end, as the server's clock does.
func (m *cursorModel) expire() {
	if m.twin.owner != nil {
		m.f.do("HSET", m.f.addr().CursorsKey(), tier.CursorField("c", "until"), "1")
		m.twin.expired = true
	}
}

// isThere says whether a verb found the cursor, as it had to.
func (m *cursorModel) isThere(err error) bool {
	if m.twin.gone {
		require.ErrorIs(m.t, err, stream.ErrNoCursor)
		return false
	}
	require.NoError(m.t, err)
	return true
}

func (m *cursorModel) pause() {
	if m.isThere(m.c.Pause(m.f.ctx)) {
		m.twin.paused = true
	}
}

func (m *cursorModel) resume() {
	if m.isThere(m.c.Resume(m.f.ctx)) {
		m.twin.paused = false
	}
}

func (m *cursorModel) reset() {
	if m.isThere(m.c.Reset(m.f.ctx, stream.Head())) {
		m.twin.anew()
		m.twin.epoch++
	}
}

func (m *cursorModel) remove() {
	if m.isThere(m.c.Delete(m.f.ctx)) {
		m.twin.anew()
		m.twin.gone, m.twin.paused, m.twin.epoch = true, false, 0
	}
}

func (m *cursorModel) trim(keep int) {
	m.f.do("XTRIM", m.f.log(), "MAXLEN", strconv.Itoa(keep))
	m.twin.trimmed = max(m.twin.trimmed, len(m.twin.log)-keep)
}

// check compares the server with the twin: what is through according to the checkpoint is what was committed as through.
func (m *cursorModel) check() {
	c, a := m.twin, m.f.addr()
	if c.gone {
		require.Empty(m.t, m.f.row("c", "epoch"))
	} else {
		owner := ""
		if c.owner != nil {
			owner = c.owner.real.Name()
		}
		require.Equal(m.t, owner, m.f.row("c", "owner"))
		require.Equal(m.t, strconv.FormatUint(c.epoch, 10), m.f.row("c", "epoch"))
		m.checkPlace()
	}
	parked := map[string]bool{}
	for e := range c.parked {
		parked[e.String()] = true
	}
	reply := m.f.do("ZRANGE", a.RetryKey("c"), "0", "-1")
	in, err := reply.AsStrSlice()
	require.NoError(m.t, err)
	require.Len(m.t, in, len(parked))
	for _, e := range in {
		require.True(m.t, parked[e], e)
	}
	require.Equal(m.t, strconv.Itoa(len(parked)), m.f.text("HLEN", a.OpenKey("c")))
	require.Equal(m.t, strconv.Itoa(c.dead), m.f.text("XLEN", a.DeadKey("c")))
	require.Equal(m.t, strconv.Itoa(c.written), m.f.text("XLEN", m.out().LogKey()))
	want := map[string]string{}
	for e, n := range c.outputs {
		want[e.String()] = strconv.Itoa(n)
	}
	reply = m.f.do("HGETALL", tier.StateKey(a.Scope, m.state()))
	outputs, err := reply.AsStrMap()
	require.NoError(m.t, err)
	require.Equal(m.t, want, outputs)
}

func (m *cursorModel) checkPlace() {
	c := m.twin
	at, err := codec.ParseEntryID(m.f.row("c", "at"))
	require.NoError(m.t, err)
	require.GreaterOrEqual(m.t, at.Compare(c.least), 0, "it went back, from %s to %s", c.least, at)
	c.least = at
	above := strings.Fields(m.f.row("c", "above"))
	for _, e := range c.log[c.trimmed:] {
		through := c.through[e] || c.parked[e] != nil
		is := e.Compare(at) <= 0 || slices.Contains(above, e.String())
		require.Equal(m.t, through, is, "whether %s is through, with checkpoint %s above %s", e, at, above)
	}
}

// takesUp: what is parked comes once, all of it that stands up to an address at least, suspects one at a time.
func (m *cursorModel) takesUp(x *twinOwner, got tier.Taken, upTo codec.EntryID) {
	c, suspects := m.twin, 0
	must, doubted, alone := c.canBeTaken(false, upTo), c.canBeTaken(true, upTo), c.isAlone()
	taken := func(e codec.EntryID) *twinParked {
		p := c.parked[e]
		require.NotNil(m.t, p, "%s is not parked", e)
		require.False(m.t, p.taken, "%s is taken up already", e)
		require.True(m.t, c.isNext(x, e), "%s comes before one that stands before it", e)
		p.taken, p.times = true, p.times+1
		if p.suspect {
			suspects++
		}
		must = slices.DeleteFunc(must, func(o codec.EntryID) bool { return o == e })
		return p
	}
	for _, l := range got.Leased {
		p := taken(l.Entry)
		require.Equal(m.t, p.deliveries+p.times, l.Deliveries)
		x.give(l.Entry, l.Deliveries)
	}
	for _, e := range got.Lost {
		require.False(m.t, c.exists(e))
		taken(e)
		delete(c.parked, e)
	}
	if c.paused {
		require.Empty(m.t, got.Leased)
		return
	}
	require.Empty(m.t, must, "due, and not taken up")
	require.LessOrEqual(m.t, suspects, 1)
	require.True(m.t, suspects == 0 || alone, "a suspect is taken up beside another")
	require.True(m.t, suspects == 1 || !alone || len(doubted) == 0, "a suspect is not taken up")
}

// finish: whatever happened, one member that goes on gets everything through.
func (m *cursorModel) finish() {
	if m.twin.gone {
		m.sync(m.twin.members[0])
	}
	m.resume()
	open := func() bool {
		return len(m.twin.parked) > 0 || slices.ContainsFunc(m.twin.log[m.twin.trimmed:], func(e codec.EntryID) bool { return !m.twin.through[e] })
	}
	m.expire()
	x := m.twin.members[0]
	for range 300 {
		m.sync(x)
		var all []tier.Ending
		for _, e := range x.holds {
			all = append(all, tier.Ending{Entry: e, Deliveries: x.count[e]})
		}
		m.commit(x, all)
		m.check()
		if !open() {
			return
		}
		m.read(x, 100)
		m.due(x)
	}
	require.Fail(m.t, "it does not get through")
}

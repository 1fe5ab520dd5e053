package retention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// source is a member of a group, or the owner of a cursor.
type source interface {
	Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error)
	Commit(ctx context.Context, list []tier.Ending) error
	Due(ctx context.Context, n int) (tier.Taken, error)
}

// party is who needs entries: those of needs, of which it holds some.
type party struct {
	name  string
	real  source
	needs map[codec.EntryID]bool
	holds []tier.Leased
}

// model lets parties read, fail and settle at random while a sweeper trims, and knows what each still needs.
type model struct {
	s       *stage
	t       *rapid.T
	sweeper *retention.Sweeper
	parties []*party
	gone    int64
}

func (m *model) log() (ids []codec.EntryID) {
	r, err := stream.NewReader(m.s.client, stream.ReaderConfig{Address: m.s.address("orders")})
	require.NoError(m.t, err)
	for record, err := range r.Range(m.s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		if errors.Is(err, stream.ErrNoStream) {
			return nil
		}
		require.NoError(m.t, err)
		ids = append(ids, record.Addr)
	}
	return ids
}

func (m *model) append(n int) {
	before := m.log()
	m.s.append("orders", n, 10)
	for _, id := range m.log()[len(before):] {
		for _, p := range m.parties {
			p.needs[id] = true
		}
	}
}

func (m *model) join(kind string) {
	p := &party{name: fmt.Sprint(kind, len(m.parties)), needs: map[codec.EntryID]bool{}}
	if kind == "group" {
		p.real = m.s.member("orders", p.name)
	} else {
		c, err := stream.NewCursor(m.s.client, stream.CursorConfig{Address: m.s.address("orders"), Name: p.name, Start: stream.Head(), Lease: time.Minute})
		require.NoError(m.t, err)
		p.real, err = c.Join(m.s.ctx, "m")
		require.NoError(m.t, err)
	}
	for _, id := range m.log() {
		p.needs[id] = true
	}
	m.parties = append(m.parties, p)
}

// ends settles one of what the party holds, or parks it.
func (m *model) ends(p *party, i int, parks bool) {
	ending := tier.Ending{Entry: p.holds[i].Entry, Deliveries: p.holds[i].Deliveries}
	p.holds = slices.Delete(p.holds, i, i+1)
	if parks {
		ending.Open = []tier.Open{{Attempt: ending.Deliveries}}
	}
	require.NoError(m.t, p.real.Commit(m.s.ctx, []tier.Ending{ending}))
	if !parks {
		delete(p.needs, ending.Entry)
	}
}

// sweep trims by a policy, and finds all that is needed.
func (m *model) sweep(policy stream.Retention) {
	m.s.declare("orders", policy)
	list, err := m.sweeper.Once(m.s.ctx)
	require.NoError(m.t, err)
	require.NoError(m.t, list[0].Err)
	m.gone += list[0].Entries
	log := m.log()
	there := map[codec.EntryID]bool{}
	for _, id := range log {
		there[id] = true
	}
	for _, p := range m.parties {
		for id := range p.needs {
			require.True(m.t, there[id], "%s needs %s, which was trimmed by %q", p.name, id, policy)
		}
	}
	if policy.Settled && policy.Exact && len(m.parties) > 0 && len(log) > 0 { // and nothing stays for nobody
		require.True(m.t, slices.ContainsFunc(m.parties, func(p *party) bool { return p.needs[log[0]] }), "%s stays, and nobody needs it", log[0])
	}
}

// TestNothingUnsettledGoes (B60): whatever groups and cursors do, come or hold, no trim takes what one of them needs, and an
// exact one leaves nothing before it.
func TestNothingUnsettledGoes(t *testing.T) {
	srv := tiertest.Shared(t, tiertest.Valkey)
	var gone int64
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{s: newStage(t, srv), t: rt}
		m.sweeper = m.s.sweeper(retention.SweeperConfig{})
		m.append(5)
		m.join("group")
		some := func(label string, least int) int { return rapid.IntRange(least, 4).Draw(rt, label) }
		who := func() *party { return rapid.SampledFrom(m.parties).Draw(rt, "who") }
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(*rapid.T) { m.append(some("n", 1) * some("times", 1)) },
			"join": func(rt *rapid.T) {
				if len(m.parties) == 4 {
					rt.Skip("enough")
				}
				m.join(rapid.SampledFrom([]string{"group", "cursor"}).Draw(rt, "kind"))
			},
			"read": func(rt *rapid.T) {
				p := who()
				leased, err := p.real.Read(m.s.ctx, some("n", 1), 0)
				require.NoError(rt, err)
				p.holds = append(p.holds, leased...)
			},
			"due": func(rt *rapid.T) {
				p := who()
				taken, err := p.real.Due(m.s.ctx, some("n", 1))
				require.NoError(rt, err)
				require.Empty(rt, taken.Lost)
				p.holds = append(p.holds, taken.Leased...)
			},
			"end": func(rt *rapid.T) {
				p := who()
				for range min(len(p.holds), some("n", 1)) {
					m.ends(p, rapid.IntRange(0, len(p.holds)-1).Draw(rt, "i"), rapid.IntRange(0, 3).Draw(rt, "parks") == 0)
				}
			},
			"sweep": func(*rapid.T) {
				m.sweep(rapid.SampledFrom([]stream.Retention{
					{Settled: true, Exact: true}, {Settled: true, Exact: true}, {MaxLength: 3, Exact: true}, {MaxLength: 1}, {MaxAge: time.Millisecond, Exact: true},
				}).Draw(rt, "policy"))
			},
		})
		gone += m.gone
	})
	require.Positive(t, gone, "nothing was ever trimmed")
}

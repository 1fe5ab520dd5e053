package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// parkAll parks the next n entries for an hour, by a member of the group that is gone then.
func (s *stage) parkAll(n int) {
	m, err := s.group(s.client).Join(s.t.Context(), "parks")
	require.NoError(s.t, err)
	leased, err := m.Read(s.t.Context(), n, 0)
	require.NoError(s.t, err)
	require.Len(s.t, leased, n)
	var list []tier.Ending
	for i := range leased {
		list = append(list, tier.Ending{Entry: leased[i].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}})
	}
	require.NoError(s.t, m.Commit(s.t.Context(), list))
	require.NoError(s.t, m.Leave(s.t.Context()))
}

// TestHeldWhileParkedIsListed: to list what is parked may take longer than a lease: what is in flight meanwhile stays with its
// consumer.
func TestHeldWhileParkedIsListed(t *testing.T) {
	t.Parallel()
	const n = 640
	server := tiertest.Shared(t, tiertest.Valkey)
	s := newStage(t, server)
	s.append(n+1, 1)
	s.parkAll(n)
	other, err := s.group(s.client).Join(t.Context(), "other")
	require.NoError(t, err)

	proxy := tiertest.NewProxy(t, server)
	p := newPuppet(consumer.Group(s.group(tiertest.Dial(t, proxy))))
	var once sync.Once
	var begun atomic.Bool
	var asked time.Time
	var took time.Duration
	listed := make(chan struct{}) // closed when it was listed while one is in flight
	p.after = func(call string, err error) error {
		switch {
		case call == "renew" && begun.Load() && asked.IsZero(): // it is not known any more what is parked
			asked = time.Now()
			proxy.Delay(lease / 20) // two of these for each of twenty pages
			return tier.ErrFenced
		case call == "parked" && !asked.IsZero():
			once.Do(func() { took = time.Since(asked); proxy.Delay(0); close(listed) })
		}
		return err
	}
	over := make(chan struct{})
	s.run(p, func(context.Context, *consumer.Delivery) error { begun.Store(true); <-over; return nil }, consumer.Config{Order: consumer.ByKey})
	defer close(over)
	tiertest.Eventually(t, patience, func() (bool, string) {
		taken, err := other.TakeOver(t.Context(), 10, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased, "it was left alone for a lease")
		select {
		case <-listed:
			return true, ""
		default:
			return false, fmt.Sprint(p.made("parked"), " lists")
		}
	})
	require.Greater(t, took, lease, "else nothing was proved")
}

// TestOrderAfterLateDue: what a call has taken up that the server made long after its caller gave it up is found before what
// stands behind it is begun.
func TestOrderAfterLateDue(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.lease = time.Minute
	s.appendKeyed([]string{"k"}, 2, 1)
	p := newPuppet(s.source())
	late, fenced := false, false
	p.before = func(ctx context.Context, call string) error {
		switch {
		case call == "due" && !late: // another call like it, of which nobody here knows
			late = true
			taken, err := p.member.Due(ctx, 1)
			require.NoError(t, err)
			require.Len(t, taken.Leased, 1)
		case call == "commit" && late && !fenced: // so that it is asked what is held, and what is parked
			fenced = true
			return tier.ErrFenced
		}
		return nil
	}
	j := newJournal()
	s.run(p, j.handler(byKey, func(d *consumer.Delivery, before int) error {
		if string(d.Data) == "k/0" && before == 0 {
			return consumer.RetryAfter(errors.New("not yet"), 0)
		}
		return nil
	}), consumer.Config{Order: consumer.ByKey})
	j.reach(t, "k", 3)
	s.settled(patience)
	require.Equal(t, ordered("k", 2, 2), j.seen("k"))
}

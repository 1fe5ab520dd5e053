package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

// TestNext: whoever has a slot is given the first open batch, as long as its own is open; of two who look at the same time, one finds
// it taken.
func TestNext(t *testing.T) {
	c, err := NewClient(nil, Config{Queue: "q"})
	require.NoError(t, err)
	first, second := &batch{}, &batch{}
	c.open = []*batch{first, second}
	require.Same(t, first, c.next(t.Context(), second))
	require.Nil(t, c.next(t.Context(), first))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, c.next(ended, second))
	require.Same(t, second, c.next(t.Context(), second))
	require.Nil(t, c.next(t.Context(), second))
}

// TestReopen: a batch that was not answered is open again for those who still wait for it, and for nobody else, since the server may have had it as it is; when
// all have gone meanwhile, it is not sent again.
func TestReopen(t *testing.T) {
	c, err := NewClient(nil, Config{Queue: "q"})
	require.NoError(t, err)
	b, _ := c.join(make([]encoded, 1))
	c.join(make([]encoded, 1))
	ended, cancel := context.WithCancel(t.Context())
	require.Same(t, b, c.next(ended, b))
	b.since = time.Now()
	cancel()
	for _, open := range [][]*batch{{b}, {}} {
		require.ErrorIs(t, c.abandon(ended, b), tier.ErrCancelled)
		c.reopen(b)
		require.Equal(t, open, c.open)
		if len(open) > 0 {
			later, offset := c.join(make([]encoded, 1))
			require.NotSame(t, b, later)
			require.Zero(t, offset)
		}
		c.open = []*batch{}
	}
}

// TestAfter: a producer whose last call is not known to have been taken makes no other.
func TestAfter(t *testing.T) {
	p := newProducer()
	p.number = 1
	b := &batch{as: *p}
	require.Same(t, p, p.after(b, true))
	require.NotEqual(t, p.name, p.after(b, false).name)
	b.as = *newProducer() // sent by another one first
	require.Same(t, p, p.after(b, true))
	require.Same(t, p, p.after(b, false))
}

// TestAtOnce: a call takes no more jobs, and names no more lanes, than a script can unpack.
func TestAtOnce(t *testing.T) {
	list := make([]encoded, maxBatch+1)
	require.Equal(t, maxBatch, atOnce(list))
	for i := range list {
		list[i].also = "another"
	}
	require.Equal(t, maxBatch/2, atOnce(list))
	require.Equal(t, 1, atOnce([]encoded{{message: string(make([]byte, maxBatchBytes+1))}, {}}))
}

package queue

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
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

package middleware_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
)

// TestDedup: what was handled is not handled again while it is remembered; what failed, is.
func TestDedup(t *testing.T) {
	calls := 0
	h := must(t)(middleware.Dedup(middleware.DedupConfig{Size: 2}))(answers(&calls, errMailbox))
	require.Equal(t, errMailbox, h(t.Context(), delivery(0)))
	for range 3 {
		require.NoError(t, h(t.Context(), delivery(0)))
		require.Equal(t, 2, calls)
	}
	for i := range 3 {
		require.NoError(t, h(t.Context(), delivery(i)))
	}
	require.Equal(t, 4, calls)
	require.NoError(t, h(t.Context(), delivery(0))) // forgotten: 1 and 2 came after it
	require.Equal(t, 5, calls)
}

// TestDedupByTheProducersID: two messages of one id are one, and those without an id are not looked at.
func TestDedupByTheProducersID(t *testing.T) {
	calls := 0
	h := must(t)(middleware.Dedup(middleware.DedupConfig{Size: 10, ID: func(d *consumer.Delivery) string {
		id, _ := d.Headers.Get("id")
		return id
	}}))(answers(&calls))
	for i := range 4 {
		d := delivery(i)
		if i < 2 {
			d.Headers.Set("id", "17")
		}
		require.NoError(t, h(t.Context(), d))
	}
	require.Equal(t, 3, calls)
}

// TestDedupWhileHandled: a duplicate of one that is being handled comes again later, and is then handled only if that has
// failed.
func TestDedupWhileHandled(t *testing.T) {
	begun, end := make(chan struct{}), make(chan error)
	var calls atomic.Int64
	h := must(t)(middleware.Dedup(middleware.DedupConfig{Size: 10}))(func(context.Context, *consumer.Delivery) error {
		calls.Add(1)
		close(begun)
		return <-end
	})
	first := make(chan error, 1)
	go func() { first <- h(context.Background(), delivery(0)) }()
	<-begun
	requireSnoozed(t, h(t.Context(), delivery(0)), time.Second)
	begun = make(chan struct{})
	end <- errMailbox
	require.Equal(t, errMailbox, <-first)
	go func() { first <- h(context.Background(), delivery(0)) }()
	<-begun
	end <- nil
	require.NoError(t, <-first)
	require.NoError(t, h(t.Context(), delivery(0)))
	require.EqualValues(t, 2, calls.Load())
}

// TestDedupModel: against a list of what was handled, however small the window is.
func TestDedupModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(rt, "size")
		fail, calls := false, 0
		m, err := middleware.Dedup(middleware.DedupConfig{Size: size})
		require.NoError(rt, err)
		h := m(func(context.Context, *consumer.Delivery) error {
			calls++
			if fail {
				return errMailbox
			}
			return nil
		})
		var handled []int
		for range rapid.IntRange(1, 60).Draw(rt, "n") {
			id := rapid.IntRange(0, 8).Draw(rt, "id")
			fail = rapid.Bool().Draw(rt, "fail")
			before, known := calls, false
			for _, is := range handled {
				known = known || is == id
			}
			err := h(context.Background(), delivery(id))
			require.Equal(rt, !known, calls > before, fmt.Sprint(handled, id))
			require.Equal(rt, !known && fail, err != nil)
			if err == nil && !known {
				handled = append(handled, id)
				handled = handled[max(0, len(handled)-size):]
			}
		}
	})
}

// TestDedupAtOnce: of many deliveries of a message on many workers one is handled.
func TestDedupAtOnce(t *testing.T) {
	var calls [50]atomic.Int64
	h := must(t)(middleware.Dedup(middleware.DedupConfig{Size: 100}))(func(_ context.Context, d *consumer.Delivery) error {
		calls[d.Position.Entry.Seq].Add(1)
		return nil
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range calls {
				_ = h(context.Background(), delivery(i))
			}
		})
	}
	wg.Wait()
	for i := range calls {
		require.EqualValues(t, 1, calls[i].Load())
	}
}

package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type ctxKey struct{}

// A handling behaves as a context of the standard library, whenever it is first asked whether it has ended.
func TestHandling(t *testing.T) {
	values := context.WithoutCancel(context.WithValue(t.Context(), ctxKey{}, "v"))
	t.Run("nobody asks", func(t *testing.T) {
		h := &handling{Context: values}
		require.NoError(t, h.Err())
		require.NoError(t, context.Cause(h))
		require.Equal(t, "v", h.Value(ctxKey{}))
		_, ok := h.Deadline()
		require.False(t, ok)
		require.Nil(t, h.ending.Load(), "none of this needs the part that ends")
		h.end(context.Canceled)
		require.ErrorIs(t, h.Err(), context.Canceled)
	})
	t.Run("asked before it ends", func(t *testing.T) {
		h := &handling{Context: values}
		done := h.Done()
		child, cancel := context.WithTimeout(h, time.Hour)
		defer cancel()
		h.end(ErrLeaseLost)
		<-done
		<-child.Done()
		require.Equal(t, context.Canceled, h.Err())
		require.Equal(t, ErrLeaseLost, context.Cause(h))
		require.Equal(t, ErrLeaseLost, context.Cause(child))
		require.Equal(t, "v", child.Value(ctxKey{}))
	})
	t.Run("asked after it ended", func(t *testing.T) {
		h := &handling{Context: values}
		h.end(ErrDrainTimeout)
		h.end(context.Canceled)
		require.Equal(t, ErrDrainTimeout, context.Cause(h))
		require.Equal(t, context.Canceled, h.Err())
		<-h.Done()
		require.Equal(t, "v", h.Value(ctxKey{}))
	})
	t.Run("ended by another goroutine", func(t *testing.T) {
		h := &handling{Context: values}
		go h.end(ErrLeaseLost)
		<-h.Done()
		require.Equal(t, ErrLeaseLost, context.Cause(h))
	})
}

// The context of a batch is that of its first message, and ends with that of any other.
func TestHandlingShared(t *testing.T) {
	for _, first := range []bool{true, false} {
		one, all := handling{Context: t.Context()}, handling{Context: t.Context()}
		if first {
			one.end(ErrLeaseLost)
		}
		one.share(&all)
		require.Equal(t, first, all.Err() != nil)
		one.end(ErrLeaseLost)
		require.ErrorIs(t, context.Cause(&all), ErrLeaseLost)
	}
}

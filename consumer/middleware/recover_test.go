package middleware_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
)

// TestRecover: a panic becomes what was chosen for it, and tells its value and where it was.
func TestRecover(t *testing.T) {
	panics := func(context.Context, *consumer.Delivery) error { panic(errMailbox) }
	var told *consumer.PanicError
	h := middleware.Recover(func(p *consumer.PanicError) error {
		told = p
		return consumer.Permanent(p)
	})(panics)
	err := h(t.Context(), delivery(0))
	v, _ := consumer.VerdictOf(err)
	require.Equal(t, consumer.VerdictPermanent, v)
	require.Equal(t, errMailbox, told.Value)
	require.Contains(t, string(told.Stack), "recover_test.go")

	require.ErrorAs(t, middleware.Recover(nil)(panics)(t.Context(), delivery(0)), &told)
	require.NoError(t, middleware.Recover(func(*consumer.PanicError) error { return nil })(panics)(t.Context(), delivery(0)))
	none := middleware.Recover(func(*consumer.PanicError) error { return errors.New("there was none") })
	calls := 0
	require.Equal(t, errMailbox, none(answers(&calls, errMailbox))(t.Context(), delivery(0)))
}

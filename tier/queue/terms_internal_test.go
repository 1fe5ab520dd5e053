package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

// TestTermsAreKept: no term is dropped since it is short, or since another is its opposite; times are whole milliseconds.
func TestTermsAreKept(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name        string
		asked, kept tier.Terms
	}{
		{"nothing", tier.Terms{}, tier.Terms{}},
		{"a short time", tier.Terms{Timeout: 300 * time.Microsecond}, tier.Terms{Timeout: ms}},
		{"short times", tier.Terms{Backoff: 1, MaxBackoff: ms + 1, Keep: 2 * ms}, tier.Terms{Backoff: ms, MaxBackoff: ms, Keep: 2 * ms}},
		{"no end of time", tier.Terms{Keep: 1<<63 - 1}, tier.Terms{Keep: (1<<63 - 1) / ms * ms}},
		{"opposites", tier.Terms{Keep: 5 * ms, Deadline: time.UnixMilli(-5)}, tier.Terms{Keep: 5 * ms, Deadline: time.UnixMilli(-5).UTC()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := optionsOf(&tc.asked)
			require.NoError(t, err)
			require.Equal(t, &tc.kept, termsOf(text))
		})
	}
	_, err := optionsOf(&tier.Terms{Timeout: -1})
	require.ErrorIs(t, err, ErrBadCall)
}

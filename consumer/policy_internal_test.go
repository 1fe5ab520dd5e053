package consumer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	p := policy{deliveries: 3, base: time.Second, longest: time.Minute}
	broken := errors.New("broken")
	for _, tc := range []struct {
		name    string
		err     error
		attempt int
		fate    fate
		longest time.Duration // of the pause
		exact   bool
		reason  string
	}{
		{name: "handled", attempt: 1, fate: fateDone},
		{name: "failed once", err: broken, attempt: 1, fate: fateAgain, longest: time.Second},
		{name: "failed twice", err: broken, attempt: 2, fate: fateAgain, longest: 2 * time.Second},
		{name: "B112: at the cap", err: broken, attempt: 3, fate: fateDead, reason: "attempt 3 of 3: broken"},
		{name: "after a crash past the cap", err: broken, attempt: 7, fate: fateDead, reason: "attempt 7 of 3: broken"},
		{name: "B110: permanent, wrapped twice", err: fmt.Errorf("a: %w", fmt.Errorf("b: %w", Permanent(broken))), attempt: 1, fate: fateDead, reason: "a: b: broken"},
		{name: "retry after", err: RetryAfter(broken, time.Hour), attempt: 1, fate: fateAgain, longest: time.Hour, exact: true},
		{name: "retry after, at the cap", err: RetryAfter(broken, time.Hour), attempt: 3, fate: fateDead, reason: "attempt 3 of 3: broken"},
		{name: "retry after a time in the past", err: RetryAfter(broken, -1), attempt: 1, fate: fateAgain, exact: true},
		{name: "snoozed", err: fmt.Errorf("not yet: %w", Snooze(time.Hour)), attempt: 1, fate: fateLater, longest: time.Hour, exact: true},
		{name: "snoozed at the cap", err: Snooze(time.Hour), attempt: 3, fate: fateLater, longest: time.Hour, exact: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, pause, reason := p.judge(tc.err, tc.attempt)
			require.Equal(t, tc.fate, f)
			require.Equal(t, tc.reason, reason)
			require.LessOrEqual(t, pause, tc.longest+1)
			if tc.exact {
				require.Equal(t, tc.longest, pause)
			}
		})
	}
	require.NoError(t, Permanent(nil))
	require.NoError(t, RetryAfter(nil, time.Second))
	require.ErrorIs(t, Permanent(broken), broken)
	require.ErrorIs(t, RetryAfter(broken, 0), broken)
}

// B113: pauses grow to their limit and no further, however often a message has failed, and are drawn.
func TestPausesAreClamped(t *testing.T) {
	p := policy{base: time.Hour, longest: 1000 * time.Hour}
	seen := map[time.Duration]bool{}
	for attempt := 1; attempt < 20_000; attempt += 7 {
		f, pause, _ := p.judge(errBroken, attempt)
		require.Equal(t, fateAgain, f, "without a cap there is no end")
		require.Positive(t, pause)
		require.LessOrEqual(t, pause, 1000*time.Hour+1)
		seen[pause] = true
	}
	require.Greater(t, len(seen), 2000)
}

func TestExhausted(t *testing.T) {
	_, over := policy{deliveries: 3}.exhausted(3)
	require.False(t, over)
	reason, over := policy{deliveries: 3}.exhausted(4)
	require.True(t, over)
	require.Contains(t, reason, "delivered 3 times")
	_, over = policy{}.exhausted(1 << 30)
	require.False(t, over)
}

func TestReasonsAreBounded(t *testing.T) {
	require.Equal(t, "short", clip("short"))
	long := clip(strings.Repeat("ä", maxReason))
	require.LessOrEqual(t, len(long), maxReason+4)
	require.True(t, utf8.ValidString(long))
	require.LessOrEqual(t, len(clip(strings.Repeat("\xff", 1<<20))), maxReason+4)
}

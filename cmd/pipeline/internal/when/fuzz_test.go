package when_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
)

func FuzzTimes(f *testing.F) {
	for _, s := range []string{"", "now", "10m", "-1h", "2026-01-02", "2026-01-02 03:04", "2026-01-02T03:04:05Z", "5-6", "1767225600", "9999999999999999999", "1e400h", "ORD0JZGkP8stH0"} {
		f.Add(s)
	}
	now := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = when.ParsePoint(s, now)
		if at, err := when.ParseEvent(s); err == nil {
			require.NotEmpty(t, at.String())
		}
		if d, err := when.ParseDuration(s); err == nil {
			require.NotEmpty(t, d.String())
		}
	})
}

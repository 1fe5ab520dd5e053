package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryDelay(t *testing.T) {
	const lease = 30 * time.Second
	seen := map[time.Duration]bool{}
	for try := 1; try < 200; try++ {
		d := retryDelay(try, lease)
		require.LessOrEqual(t, d, min(lease, time.Second<<min(try-1, 5))+1)
		require.GreaterOrEqual(t, d, time.Millisecond)
		seen[d] = true
	}
	require.Greater(t, len(seen), 150, "pauses are drawn")
}

package codec_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// TestPartition: every key has one of n partitions, always the same; keys that differ in a digit spread over all of them,
// no partition with half as many again as its share. The values themselves are vectors of FORMAT.md.
func TestPartition(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 100, codec.MaxPartitions} {
		per := make([]int, n)
		for i := range 200 * n {
			key := fmt.Sprintf("customer-%d", i)
			p := codec.Partition(key, n)
			require.Equal(t, p, codec.Partition(key, n))
			per[p]++
		}
		for p, got := range per {
			require.InDelta(t, 200, got, 100, "partition %d of %d", p, n)
		}
	}
	require.Panics(t, func() { codec.Partition("k", 0) })
}

package consumer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownersOf is who should own each partition, which exactly one must.
func ownersOf(t *testing.T, there []string, n int) []string {
	t.Helper()
	owners := make([]string, n)
	for _, m := range there {
		for _, k := range shareOf(m, there, n) {
			require.Empty(t, owners[k], "partition %d has two owners", k)
			owners[k] = m
		}
	}
	require.NotContains(t, owners, "")
	return owners
}

func membersNamed(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("host-%d-4711-%x", i%3, i*i*7919)
	}
	return names
}

// TestShareMovesLittle: each partition has one owner, in whatever order the members are listed; who joins takes, and who leaves
// gives, and nothing else moves.
func TestShareMovesLittle(t *testing.T) {
	tests := []struct{ partitions, members int }{{1, 1}, {1, 3}, {3, 2}, {8, 2}, {8, 3}, {64, 5}, {256, 16}}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d over %d", tt.partitions, tt.members), func(t *testing.T) {
			all := membersNamed(tt.members + 1)
			before := ownersOf(t, all[:tt.members], tt.partitions)
			reversed := slices.Clone(all[:tt.members])
			slices.Reverse(reversed)
			require.Equal(t, before, ownersOf(t, reversed, tt.partitions))
			after := ownersOf(t, all, tt.partitions)
			for k := range after {
				if after[k] != before[k] {
					require.Equal(t, all[tt.members], after[k], "a partition moved between two that were there")
				}
			}
			require.Equal(t, before, ownersOf(t, all[:tt.members], tt.partitions))
		})
	}
	require.Empty(t, shareOf("other", membersNamed(3), 8), "who is not there owns nothing")
	require.Empty(t, shareOf("a", nil, 8))
}

// TestShareBalance: with 16 partitions a member, over many sets of members, a share is within twice the mean in all but few cases,
// and never nothing; with names that differ in a digit, too.
func TestShareBalance(t *testing.T) {
	const members, partitions, sets = 8, 128, 200
	double, none := 0, 0
	for s := range sets {
		there := make([]string, members)
		for i := range there {
			there[i] = fmt.Sprintf("worker-%d", s*members+i)
		}
		for _, m := range there {
			n := len(shareOf(m, there, partitions))
			if n > 2*partitions/members {
				double++
			}
			if n == 0 {
				none++
			}
		}
	}
	require.Zero(t, none)
	require.LessOrEqual(t, double, members*sets/500, "of %d", members*sets)
}

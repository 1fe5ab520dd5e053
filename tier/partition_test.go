package tier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

// TestLayout: what is written is read, and nothing else.
func TestLayout(t *testing.T) {
	tests := []struct {
		text string
		want tier.Layout
		span int
	}{
		{"1", tier.Layout{Count: 1}, 1},
		{"256", tier.Layout{Count: 256}, 256},
		{"8>16", tier.Layout{Count: 8, Next: 16}, 16},
		{"16>8", tier.Layout{Count: 16, Next: 8}, 16},
	}
	for _, tt := range tests {
		got, err := tier.ParseLayout(tt.text)
		require.NoError(t, err, tt.text)
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.text, got.String())
		require.Equal(t, tt.span, got.Span())
	}
	for _, bad := range []string{"", "0", "257", "08", "-1", "8>", ">8", "8>0", "8>16>32", "8 ", "x"} {
		_, err := tier.ParseLayout(bad)
		require.Error(t, err, bad)
	}
}

// TestPartitionMark: of whom, which, how many; and what streams in it are declared with.
func TestPartitionMark(t *testing.T) {
	p, err := tier.ParsePartition("shop 3 8")
	require.NoError(t, err)
	require.Equal(t, tier.Partition{Of: "shop", Index: 3, Layout: tier.Layout{Count: 8}}, p)
	require.Equal(t, "shop 3 8", p.String())
	require.Equal(t, "shop.3", p.Scope())
	require.Equal(t, " partition 3/8", p.Declaration())
	p.Next = 16
	require.Equal(t, " partition 3/8>16", p.Declaration())
	p, err = tier.ParsePartition("shop 12 8") // left behind by a change
	require.NoError(t, err)
	require.Equal(t, 12, p.Index)
	for _, bad := range []string{"", "shop", "shop 3", "shop 3 8 9", "shop  8", "shop 3 0", "shop 256 8", "shop 03 8", "sh op 3 8", "emq 3 8", "a/b 3 8"} {
		_, err := tier.ParsePartition(bad)
		require.Error(t, err, bad)
	}
}

// TestCheckPartitionMark: what stands behind a brand.
func TestCheckPartitionMark(t *testing.T) {
	for _, p := range []string{"shop 3 8", "shop 3 8>16", "shop 12 8"} {
		mark, err := tier.ParsePartition(p)
		require.NoError(t, err)
		require.NoError(t, tier.CheckPartitionMark(mark.Declaration()))
	}
	for _, bad := range []string{"", " partition ", " partition 3", " partition 3/0", " partition 3/8/9", " partition 3 8 "} {
		require.Error(t, tier.CheckPartitionMark(bad), "%q", bad)
	}
}

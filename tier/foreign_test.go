package tier_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/tier"
)

// TestKeyAddress: what we keep about a log of another program stands on the slot of its key, under names of our own, however the
// key is spelled.
func TestKeyAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.StringMatching(`[a-z{}:/@ ]{1,30}`), rapid.StringN(1, -1, 300)).Draw(t, "key")
		a, err := tier.ParseAddress(tier.KeyAddress(key))
		require.NoError(t, err)
		require.Equal(t, key, a.LogKey())
		require.Equal(t, tier.KeyAddress(key), a.String())
		require.NoError(t, tier.CheckName("scope", a.Scope))
		require.NoError(t, tier.CheckName("stream", a.Stream))
		for _, ours := range []string{a.GroupKey("g"), a.DeadKey("g"), tier.ScopeKey(a.Scope)} {
			require.Equal(t, tier.Slot(key), tier.Slot(ours))
			require.True(t, strings.HasPrefix(ours, "emq:{key."))
		}
	})
	_, err := tier.ParseAddress(tier.KeyAddress(""))
	require.ErrorIs(t, err, tier.ErrName)
	require.Equal(t, "emq:{key.16693}:stream:orders:g:billing", must(tier.ParseAddress("key:orders")).GroupKey("billing"), "what is kept must be found again")
}

func must(a tier.Address, err error) tier.Address {
	if err != nil {
		panic(err)
	}
	return a
}

package tier_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

var badNames = []string{
	"", " ", "a b", "a/b", "a:b", "a{b", "{a}", "{", "}{", "a{}b", "a\x00", "a\n", "é", "a@3", "a,b", "*", "ﬀ", "\xff", // B88, B89
	strings.Repeat("a", tier.MaxName+1),
}

// TestCheckName: the rule of a name, for each of its kinds.
func TestCheckName(t *testing.T) {
	good := []string{"a", "Z", "0", ".", "_", "-", "A.b-c_9", "scope", "version", "emq2", "EMQ", strings.Repeat("a", tier.MaxName)}
	for _, kind := range []string{"scope", "stream", "group"} {
		for _, name := range good {
			require.NoError(t, tier.CheckName(kind, name), name)
		}
		for _, name := range badNames {
			err := tier.CheckName(kind, name)
			require.ErrorIs(t, err, tier.ErrName, "%q", name)
			var e *tier.NameError
			require.ErrorAs(t, err, &e)
			require.Equal(t, kind, e.Kind)
			require.LessOrEqual(t, len(e.Value), 64)
			require.Contains(t, err.Error(), kind)
		}
	}
	for name, shown := range map[string]string{"a/b": `'/'`, "a b": `' '`, "é": `'é'`, "a\n": `'\n'`, "ab\xff": "byte 0xff"} {
		require.EqualError(t, tier.CheckName("group", name), fmt.Sprintf("tier: group %q: %s is not one of A-Z a-z 0-9 . _ -", name, shown))
	}
	require.ErrorIs(t, tier.CheckName("scope", tier.ReservedScope), tier.ErrName)
	require.NoError(t, tier.CheckName("stream", tier.ReservedScope))
}

// TestParseAddress: "scope/stream", both of them names.
func TestParseAddress(t *testing.T) {
	a, err := tier.ParseAddress("shop/orders")
	require.NoError(t, err)
	require.Equal(t, tier.Address{Scope: "shop", Stream: "orders"}, a)
	require.Equal(t, "shop/orders", a.String())
	for k, scope := range map[string]string{"0": "shop.0", "255": "shop.255"} { // of a partition
		a, err := tier.ParseAddress("shop/orders@" + k)
		require.NoError(t, err)
		require.Equal(t, tier.Address{Scope: scope, Stream: "orders"}, a)
	}
	for _, s := range []string{"", "/", "shop", "shop/", "/orders", "shop/orders/x", "emq/orders", "shop//orders", "{shop}/orders", "shop/or ders", "a/b@", "a/b@x", "a/b@03", "a/b@-1", "a/b@256", "a/b@3@3", "a@3/b", strings.Repeat("a", 127) + "/b@3"} {
		_, err := tier.ParseAddress(s)
		require.ErrorIs(t, err, tier.ErrName, "%q", s)
	}
	for _, bad := range badNames {
		_, err := tier.ParseAddress(bad + "/orders")
		require.ErrorIs(t, err, tier.ErrName)
		if bad != "a@3" { // behind a stream it is a partition
			_, err = tier.ParseAddress("shop/" + bad)
			require.ErrorIs(t, err, tier.ErrName)
		}
	}
}

// FuzzNames: an address that is accepted is made of names that are, comes back as it was, and makes keys of one hash tag.
func FuzzNames(f *testing.F) {
	for _, s := range append(badNames, "a", "shop/orders", "shop/orders@3", "emq", "emq/a", "a/emq") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tier.CheckName("group", s) == nil {
			require.Regexp(t, `^[A-Za-z0-9._-]{1,128}$`, s)
		}
		a, err := tier.ParseAddress(s)
		if err != nil {
			require.ErrorIs(t, err, tier.ErrName)
			return
		}
		if whole, k, in := strings.Cut(s, "@"); in {
			s = strings.Replace(whole, "/", "."+k+"/", 1)
		}
		require.Equal(t, s, a.String())
		require.NoError(t, tier.CheckName("scope", a.Scope))
		require.NoError(t, tier.CheckName("stream", a.Stream))
		for _, key := range addressKeys(a) {
			requireOneTag(t, key, a.Scope)
		}
	})
}

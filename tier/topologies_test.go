package tier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDeclarations: what a topology has declared is its own, until it gives it up.
func TestDeclarations(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		client, name := tiertest.Dial(t, s), "stream:"+tiertest.Scope(t)+"/orders"
		declare := func(topology, text string) string {
			holder, err := client.Declare(t.Context(), name, tier.Declared{Topology: topology, Text: text})
			require.NoError(t, err)
			return holder
		}
		has := func() tier.Declared {
			all, err := client.Declarations(t.Context())
			require.NoError(t, err)
			return all[name]
		}
		require.Zero(t, has())
		require.Equal(t, "shop", declare("shop", `{"brand":"ORD"}`))
		require.Equal(t, "shop", declare("shop", "{}"))
		require.Equal(t, "shop", declare("other", "{}"))
		require.Equal(t, tier.Declared{Topology: "shop", Text: "{}"}, has())
		require.NoError(t, client.Disown(t.Context(), name))
		require.Zero(t, has())
		require.Equal(t, "other", declare("other", "{}"))
		require.NoError(t, client.Disown(t.Context(), name))
	})
}

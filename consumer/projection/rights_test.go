package projection_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRights: what docs/security.md says is enough for a table and a view, and without its own block a table ends.
func TestRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 10, 2, 1)
		rules := func(roles ...string) (all []string) {
			for _, role := range roles {
				_, block, found := strings.Cut(string(text), "\n```acl "+role+"\n")
				require.True(t, found, role)
				block, _, _ = strings.Cut(block, "```")
				all = append(all, strings.Fields(strings.NewReplacer("{shop}", "{"+s.addr.Scope+"}", "mailer", "tallies.1").Replace(block))...)
			}
			return all
		}
		user := tiertest.NewUser(t, []*tiertest.Server{server}, rules("owner", "outputs", "projection")...)
		mine := *s
		mine.client = tiertest.Dial(t, urlOf(user.At(server)))
		r := start(t, mine.table(s.config(1)))
		s.settled(1)
		view, err := projection.NewView(mine.client, s.addr.Scope, "tallies", codec.JSON[tally]())
		require.NoError(t, err)
		_, ok, err := view.Get(t.Context(), "k0")
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, r.stop())

		less := tiertest.NewUser(t, []*tiertest.Server{server}, rules("owner", "outputs")...)
		mine.client = tiertest.Dial(t, urlOf(less.At(server)))
		require.ErrorIs(t, start(t, mine.table(s.config(1))).wait(), tier.ErrPermission)
	})
}

type urlOf string

func (u urlOf) URL() string { return string(u) }

package projection_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A Drop that ended half way goes on when it is called again, and leaves nothing of the version, though it has an owner and
// there is more to fold.
func TestDropHalfWay(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 10, 2, 1)
		owner := start(t, s.table(s.config(1)))
		s.settled(1)
		user := tiertest.NewUser(t, []*tiertest.Server{server}, "~*", "&*", "+@all", "-unlink")
		client := tiertest.Dial(t, urlOf(user.At(server)))
		require.ErrorIs(t, projection.Drop(t.Context(), client, s.addr.String(), "tallies", 1), tier.ErrPermission)
		require.NotEmpty(t, s.state(1))
		s.append(10, 10, 2, 1)
		require.NoError(t, projection.Drop(t.Context(), s.client, s.addr.String(), "tallies", 1))
		require.ErrorIs(t, owner.wait(), stream.ErrCursorDeleted)
		require.Empty(t, s.state(1))
		_, err := projection.Live(t.Context(), s.client, s.addr.Scope, "tallies")
		require.ErrorIs(t, err, projection.ErrNoProjection)
		list, err := projection.List(t.Context(), s.client, s.addr.String())
		require.NoError(t, err)
		require.Empty(t, list)
	})
}

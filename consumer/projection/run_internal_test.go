package projection

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/stream"
)

// TestStopEndsAReadNotTheCommit: a read that the stop cuts off, while a commit is under way, is no failure of the run.
func TestStopEndsAReadNotTheCommit(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := &run{Projection: &Projection{}, owner: &stream.Owner{}, ahead: make(chan reading, 1), sent: &batch{}, outcome: make(chan error)}
	r.ahead <- reading{err: ctx.Err()}
	require.NoError(t, r.read(ctx))
	require.True(t, r.folded(), "the commit is waited for")
}

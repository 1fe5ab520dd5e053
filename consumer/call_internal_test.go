package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

func TestReactions(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want reaction
	}{
		{"none", nil, goOn},
		{"fenced", tier.ErrFenced, ask},
		{"fenced, wrapped", fmt.Errorf("settle: %w", tier.ErrFenced), ask},
		{"no group", tier.ErrNoGroup, ask},
		{"no right", tier.Wrap("XACK", "k", tier.ErrPermission), giveUp},
		{"wrong type", tier.ErrWrongType, giveUp},
		{"refused command", tier.ErrServer, giveUp},
		{"B148: loading", tier.ErrLoading, again},
		{"replica", tier.ErrReadOnly, again},
		{"full", tier.ErrStoreFull, again},
		{"unblocked", tier.ErrUnblocked, ask},
		{"script lost", tier.ErrNoScript, ask},
		{"cut", tier.Wrap("XACK", "k", io.ErrUnexpectedEOF), again},
		{"late", tier.Wrap("XACK", "k", context.DeadlineExceeded), again},
		{"of no server", errors.New("stream: it was removed"), giveUp},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, reactionTo(tc.err)) })
	}
	for _, class := range []*tier.Class{tier.ErrStoreFull, tier.ErrMisconf, tier.ErrPermission, tier.ErrWrongType} {
		require.True(t, refusesCommit(tier.Wrap("bury", "k", class)), class.Code)
	}
	require.False(t, refusesCommit(tier.ErrNoGroup))
	require.False(t, refusesCommit(tier.ErrNetwork))
}

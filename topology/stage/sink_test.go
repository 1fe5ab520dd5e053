package stage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// TestFileSink: what a crash has left behind what is committed is cut off, and a file that has less is another one.
func TestFileSink(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	path := filepath.Join(t.TempDir(), "out.txt")
	text := func() string {
		all, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(all)
	}
	begin := func() (stop func() error) {
		s, err := stage.NewSink(b.client, "out", stage.SinkConfig{From: b.address("in"), File: &stage.File{Path: path}}, stage.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		return func() error {
			cancel()
			return <-ended
		}
	}
	b.append("in", event("a", "one"))
	stop := begin()
	b.settled("in", "out")
	require.NoError(t, stop())
	require.Equal(t, "one\n", text())

	require.NoError(t, os.WriteFile(path, []byte("one\ntwo\nthree, of which nobody knows\n"), 0o600))
	b.append("in", event("a", "two"))
	stop = begin()
	b.settled("in", "out")
	require.NoError(t, stop())
	require.Equal(t, "one\ntwo\n", text())

	require.NoError(t, os.WriteFile(path, []byte("one\n"), 0o600))
	b.append("in", event("a", "three"))
	s, err := stage.NewSink(b.client, "out", stage.SinkConfig{From: b.address("in"), File: &stage.File{Path: path}}, stage.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.ErrorContains(t, s.Run(ctx), "has 4 bytes, and 8 were written")
	require.Equal(t, "one\n", text())
}

package stage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// TestFileSource: a record that no stream takes is passed over, the next run goes on behind what the file had, and a file that has less
// is another one (B84).
func TestFileSource(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	path := filepath.Join(t.TempDir(), "in.jsonl")
	run := func(lines ...string) error {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		s, err := stage.NewSource(b.client, "feed", stage.SourceConfig{To: b.address("in"), File: &stage.File{Path: path}, Key: "data.k", Type: "data.t ?? 'x'", Headers: map[string]stage.Expr{"h": "data.h"}}, stage.Options{})
		require.NoError(t, err)
		return s.Run(t.Context())
	}
	long := strings.Repeat("x", 8<<10+1)
	lines := []string{
		`{"k":"a"}`, `{"k":"` + long + `"}`, `{"k":"b","t":"` + long + `"}`, `{"k":"c","h":"` + long + `"}`,
		`{"k":"d","x":"` + strings.Repeat("x", 1<<20-20) + `"}`, `{"k":"e"}`,
	}
	require.NoError(t, run(lines...))
	require.NoError(t, run(append(lines, `{"k":"f"}`)...))
	want := []string{`a {"k":"a"}`, `e {"k":"e"}`, `f {"k":"f"}`}
	require.Equal(t, want, data(b.all("in")))
	var shorter *stage.ShorterError
	require.ErrorAs(t, run(`{"k":"g"}`), &shorter)
	require.Equal(t, stage.ShorterError{File: path, Have: 1, Want: 7}, *shorter)
	require.Equal(t, want, data(b.all("in")))
}

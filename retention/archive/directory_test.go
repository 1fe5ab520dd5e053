package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDirectoryIsOnTheDisk: what lists an object is brought to the disk before its maker goes on: its directory, each that was made
// for it, and again by who finds it there, since its maker may have died before.
func TestDirectoryIsOnTheDisk(t *testing.T) {
	root := t.TempDir()
	d, err := OpenDirectory("file://" + root + "/not/yet")
	require.NoError(t, err)
	var synced []string
	d.sync = func(path string) error {
		synced = append(synced, strings.TrimPrefix(path, root))
		return nil
	}
	create := func() error { return d.Create(t.Context(), "a/b/one", strings.NewReader("1"), 1) }
	require.NoError(t, create())
	require.Equal(t, []string{"", "/not", "/not/yet", "/not/yet/a", "/not/yet/a/b"}, synced)
	synced = nil
	require.ErrorIs(t, create(), ErrExists)
	require.Equal(t, []string{"/not/yet/a/b"}, synced)
	data, err := os.ReadFile(filepath.Join(root, "not/yet/a/b/one"))
	require.NoError(t, err)
	require.Equal(t, "1", string(data))
}

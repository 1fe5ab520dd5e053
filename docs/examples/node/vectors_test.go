package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const format = "../../../codec/FORMAT.md"

func TestVectors(t *testing.T) {
	document, err := os.ReadFile(format)
	require.NoError(t, err)
	n := strings.Count(string(document), "\n```json\n")
	require.Equal(t, fmt.Sprintf("%d vectors, 0 failed\n", n), runOK(t, "", "", "vectors.mjs"))
}

// TestVectorsAreCompared: a vector that says something else fails.
func TestVectorsAreCompared(t *testing.T) {
	document, err := os.ReadFile(format)
	require.NoError(t, err)
	tests := []struct{ name, old, new string }{
		{"an id", `"snowflake": "209715201620567"`, `"snowflake": "209715201620568"`},
		{"a place", `"host_entry": "1704117200000-1620567"`, `"host_entry": "1704117200000-1620568"`},
		{"a bad id", `"reason": "range"`, `"reason": "length"`},
		{"a message that is read", `["a", "2"]`, `["a", "1"]`},
		{"a message that is written", `"hex": "95 01 a0 a0 80 c4 00"`, `"hex": "95 01 a0 a0 80 c5 00 00"`},
		{"a bad message", `"hex": "95 02 a0`, `"hex": "95 01 a0`},
		{"the order in a pack", `{"type": "b", "key": "2"`, `{"type": "b", "key": "3"`},
		{"a bad pack", `"what": "bytes after the pack"`, `"what": "bytes after the last message"`},
		{"an address", `"addr": "1767225600000-41"`, `"addr": "1767225600000-42"`},
		{"a foreign entry", `"entry": "1767225600000-4096"`, `"entry": "1767225600000-4095"`},
		{"a partition", `"partitions": 8, "partition": 7`, `"partitions": 8, "partition": 6`},
		{"a kind", `"vector": "pack"`, `"vector": "packet"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(string(document), tt.old, tt.new, 1)
			require.NotEqual(t, string(document), changed)
			file := filepath.Join(t.TempDir(), "FORMAT.md")
			require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
			out, _, err := run(t, "", "", "vectors.mjs", file)
			require.Error(t, err)
			require.Contains(t, out, " vectors, 1 failed\n")
		})
	}
}

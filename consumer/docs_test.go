package consumer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDocumentHasTheProgram keeps what docs/processing.md shows first the same as what is tested here.
func TestTheDocumentHasTheProgram(t *testing.T) {
	text, err := os.ReadFile("../docs/processing.md")
	require.NoError(t, err)
	program, err := os.ReadFile("example_outputs_test.go")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```go\n// ledger ")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```\n")
	require.Contains(t, string(program), "\n// ledger "+block)
}

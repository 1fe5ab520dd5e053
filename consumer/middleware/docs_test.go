package middleware_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDocumentHasTheProgram keeps what docs/middleware.md shows the same as what is tested here, and its table complete.
func TestTheDocumentHasTheProgram(t *testing.T) {
	text, err := os.ReadFile("../../docs/middleware.md")
	require.NoError(t, err)
	program, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		require.Contains(t, string(program), "\n"+block[1])
	}
	for _, name := range []string{"Logging", "Tracing", "Recover", "Dedup", "Once", "RateLimit", "RateLimitByKey", "Breaker", "Timeout"} {
		require.True(t, strings.Contains(string(text), "\n| `"+name+"` |"), name)
	}
}

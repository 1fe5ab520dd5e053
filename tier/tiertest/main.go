package tiertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests, stops the servers that they shared, and fails when a
// goroutine is left. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	servers.stop()
	// No exceptions are needed: servers and proxies have ended by now, and what a
	// test has started it has to end.
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "tiertest: goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

package tiertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

const lateRefresh = "github.com/redis/rueidis.(*call).DelayDo.func1"

// Main runs the tests, stops the servers that they shared, and fails when a
// goroutine is left. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	servers.stop()
	// Servers and proxies have ended by now, and what a test has started it has to
	// end. The exception: of a cluster that it lost a connection to, the client
	// library asks for the slots up to a second later, after Close too.
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction(lateRefresh)); err != nil {
			fmt.Fprintln(os.Stderr, "tiertest: goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

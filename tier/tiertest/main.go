package tiertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// late are the goroutines of the client library that outlast a client of a
// cluster: they ask for the slots up to a second later, and close connections to
// nodes that have gone five seconds later.
var late = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
	goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
	goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
}

// Main runs the tests, stops the servers that they shared, and fails when a
// goroutine is left that is not among those to be ignored. It does not return.
func Main(m *testing.M, ignore ...goleak.Option) {
	code := Run(m)
	// Servers and proxies have ended by now, and what a test has started it has to
	// end.
	if code == 0 {
		if err := goleak.Find(append(ignore, late...)...); err != nil {
			fmt.Fprintln(os.Stderr, "tiertest: goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Run runs the tests and stops the servers that they shared, for a module whose peers leave goroutines. It returns the exit code.
func Run(m *testing.M) int {
	defer servers.stop()
	return m.Run()
}

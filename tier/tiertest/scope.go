package tiertest

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"
)

// Scope returns the name of a scope that no other test has. It is a valid name
// of a stream or a group as well.
func Scope(testing.TB) string { return "t" + strings.ToLower(rand.Text()[:12]) }

// eventuallyTick is short: a test waits half of it too long on average.
const eventuallyTick = 2 * time.Millisecond

// Eventually returns when cond is true, and fails the test when that is not so
// within the time, with the reason that cond gave last. It is for what nobody
// signals; where there is a channel, wait on that.
func Eventually(t testing.TB, within time.Duration, cond func() (ok bool, why string)) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(eventuallyTick)
	defer tick.Stop()
	for {
		ok, why := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, why)
		}
	}
}

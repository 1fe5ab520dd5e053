package bridge_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/echomq/pipeline/tier/tiertest"
)

// leaks are goroutines of Watermill's suite that outlast it.
var leaks = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe.func2"),
	goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe.func3"),
	goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/pubsub/tests.TestReconnect.func2"),
}

// restartArg makes this binary the command that Watermill's suite restarts the server with: it connects to the socket that is named behind
// it, and ends when whoever listens there hangs up.
const restartArg = "restart-the-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == restartArg {
		conn, err := net.Dial("unix", os.Args[2])
		if err == nil {
			_, err = io.Copy(io.Discard, conn)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = flag.Set("test.parallel", "16") // the suite waits far more than it works
	tiertest.Main(m, leaks...)
}

package consumer_test

import (
	"flag"
	"os"
	"testing"

	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(childEnv); address != "" {
		os.Exit(child(address))
	}
	// These tests wait for leases to end, and cost little while they do: more of them than there are processors run side
	// by side, unless the command line says otherwise.
	_ = flag.Set("test.parallel", "16")
	tiertest.Main(m)
}

package consumer_test

import (
	"flag"
	"testing"

	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) {
	// These tests wait for leases to end, and cost little while they do: more of them than there are processors run side
	// by side, unless the command line says otherwise.
	_ = flag.Set("test.parallel", "12")
	tiertest.Main(m)
}

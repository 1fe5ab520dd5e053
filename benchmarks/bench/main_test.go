package bench_test

import (
	"testing"

	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

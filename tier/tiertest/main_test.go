package tiertest_test

import (
	"os"
	"testing"

	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(leakEnv) != "" {
		go func() { select {} }()
	}
	tiertest.Main(m)
}

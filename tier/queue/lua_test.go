package queue_test

import (
	"testing"

	"github.com/echomq/pipeline/tier/tiertest"
)

// sources are the scripts of this package.
func sources(t testing.TB) map[string]tiertest.Source {
	t.Helper()
	return tiertest.Sources(t, "lua")
}

func TestScripts(t *testing.T) { tiertest.CheckScripts(t, sources(t)) }

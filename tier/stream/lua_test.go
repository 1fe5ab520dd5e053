package stream_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

type source = tiertest.Source

// sources are the scripts of package tier, of this one, and of the doctor.
func sources(t testing.TB) map[string]source {
	t.Helper()
	return tiertest.Sources(t, "../lua", "lua", "../doctor/lua")
}

func TestScripts(t *testing.T) {
	all := sources(t)
	tiertest.CheckScripts(t, all)
	minting := 0
	for _, s := range all {
		minting += strings.Count(s.Text, "\n-- mint begin")
	}
	require.GreaterOrEqual(t, minting, 3)
}

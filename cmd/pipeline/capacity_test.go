package main_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/capacity"
)

// TestCapacity: the example in the document is what the program says, in text and in JSON, and no server is started for it.
func TestCapacity(t *testing.T) {
	t.Parallel()
	p := alone(t)
	args := []string{"capacity", "--size", "500", "--rate", "5000", "--keep", "24h", "--groups", "2"}
	r := p.ok(append(args, "--output", "text")...)
	document, err := os.ReadFile("../../docs/capacity.md")
	require.NoError(t, err)
	require.Contains(t, string(document), "```text\n"+r.out+"```\n")
	require.Empty(t, r.errOut)
	require.Regexp(t, `in memory +102 B\n`, p.ok("capacity", "--size", "50", "--output", "text").out, "rounded, as in the table of the document")

	var plain, packed capacity.Estimate
	require.NoError(t, json.Unmarshal([]byte(p.ok(args...).out), &plain))
	require.InDelta(t, 432e6, plain.Messages, 0)
	require.NoError(t, json.Unmarshal([]byte(p.ok(append(args, "--pack", "100", "--compressed", "30", "--replicas", "1", "--headers", "20")...).out), &packed))
	require.Equal(t, plain.Encoded+20, packed.Encoded)
	require.Less(t, packed.Memory, 0.35*plain.Memory)
	require.NoDirExists(t, p.dir+"/data")
}

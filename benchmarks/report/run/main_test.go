package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/report"
)

// TestLines: lines of JSON are results as they are, those of Go benchmarks become some, the rest is none.
func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, lines(strings.NewReader(`goos: linux
BenchmarkEncode/ours-2         	 1000000	        94.10 ns/op	       0 B/op	       0 allocs/op
{"work":"stream"}
BenchmarkOther-2	1	2 ns/op
PASS`), &out))
	require.Equal(t, `{"benchmark":"Encode/ours","ns_per_op":94.1,"bytes_per_op":0,"allocs_per_op":0}
{"work":"stream"}
`, out.String())
}

func TestMachine(t *testing.T) {
	t.Parallel()
	m := machine(t.Context())
	require.Regexp(t, `^\d{4}-\d\d-\d\d$`, m.Date)
	require.Positive(t, m.Cores)
	require.Regexp(t, `^go1\.`, m.Go)
}

// TestResults: what a command fails with is told, and its results stand before.
func TestResults(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Error(t, results(t.Context(), "false", &out))
	require.NoError(t, results(t.Context(), `echo {"match":"a"}`, &out))
	r, err := report.Read(&out)
	require.NoError(t, err)
	require.Equal(t, []report.Turn{{Match: "a"}}, r.Turns)
	require.ErrorContains(t, run(t.Context(), []string{"everything"}), "usage: run [bench|peers|growth]")
}

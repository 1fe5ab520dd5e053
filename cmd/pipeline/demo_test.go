package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/demo"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

// The demo ends by itself, loses nothing, adds up, and leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := alone(t)
	temp := filepath.Join(p.dir, "tmp")
	require.NoError(t, os.Mkdir(temp, 0o700))
	p.env = append(p.env, "TMPDIR="+temp)

	begun := time.Now()
	r := p.ok("demo")
	require.Less(t, time.Since(begun), 20*time.Second)
	require.NotContains(t, r.out, "\x1b", "no colour when nobody looks")
	require.Empty(t, r.errOut)
	for _, want := range []string{
		`server +\d+m?s  valkey \d`,
		`publish +\d+m?s  2,000 events of 30 networks to demo/earthquakes, [\d,]+/s`,
		`consumer-2 is killed \(SIGKILL\), after [\d,]+ events of all`,
		`its lease is over: the others take over what it held`,
		`2,000 of 2,000 handled, [\d,]+/s; [1-9]\d* taken over, \d+ twice`,
		`window +\S+  [\d:.]+ to [\d:.]+ again: [\d,]+ events`,
		`get +\S+  EAR\w{11}, the strongest: M 6\.7, 2016/01/03 23:05`,
		`check +\S+  nothing unread, pending or dead`,
		`\n  total +2,000 +2,000 +\d+ +[\d,]+\n`,
		`Nothing is lost and everything adds up`,
		`NCEDC .*doi:10\.7932/NCEDC`,
	} {
		require.Regexp(t, want, r.out)
	}
	for _, line := range r.lines() {
		require.LessOrEqual(t, show.Width(line), 80, line)
	}
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoDirExists(t, filepath.Join(p.dir, "data"), "it has a server of its own")
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	var got demo.Result
	require.NoError(t, json.Unmarshal([]byte(alone(t).ok("demo", "--output", "json").out), &got))
	require.Equal(t, 2000, got.Published)
	require.Equal(t, 2000, got.Handled)
	require.Zero(t, got.Lost)
	require.Positive(t, got.TakenOver)
	sum := demo.Network{Name: "total"}
	for _, n := range got.Networks {
		require.Equal(t, n.Published, n.Handled, n.Name)
		sum.Published += n.Published
		sum.Handled += n.Handled
		sum.Repeated += n.Repeated
		sum.Window += n.Window
	}
	require.Equal(t, got.Network, sum, "the networks add up")
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	p := alone(t)
	temp := filepath.Join(p.dir, "tmp")
	require.NoError(t, os.Mkdir(temp, 0o700))
	p.env = append(p.env, "TMPDIR="+temp)
	running := p.start("demo")
	for line := ""; line == "" || line[:8] != "  handle"; {
		if line = running.line(); len(line) < 8 {
			line = ""
		}
	}
	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.Empty(t, r.errOut)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

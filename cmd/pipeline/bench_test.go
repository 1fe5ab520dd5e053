package main_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/tier/tiertest"
)

// benchFields are those that scripts count on.
var benchFields = []string{
	"work", "per_second", "ceiling_per_second", "ratio", "p50_us", "p99_us", "p999_us",
	"server_us_per_message", "client_us_per_message", "allocs_per_message", "server_bytes_per_message", "rounds",
}

// TestBench: each group is measured on a server of its own, of which nothing is left, and says all that there is to say.
func TestBench(t *testing.T) {
	t.Parallel()
	for _, group := range bench.Groups() {
		t.Run(group.Name, func(t *testing.T) {
			t.Parallel()
			p := alone(t)
			temp := filepath.Join(p.dir, "tmp")
			require.NoError(t, os.Mkdir(temp, 0o700))
			p.env = append(p.env, "TMPDIR="+temp)
			r := p.ok("bench", group.Name, "--size", "64", "--count", "100", "--concurrency", "2", "--rounds", "1", "--json")
			require.Len(t, r.lines(), len(group.Works))
			for i, line := range r.lines() {
				var fields map[string]any
				require.NoError(t, json.Unmarshal([]byte(line), &fields))
				for _, name := range benchFields {
					require.Contains(t, fields, name, line)
				}
				var got bench.Result
				require.NoError(t, json.Unmarshal([]byte(line), &got))
				require.Equal(t, group.Works[i].Name, got.Work)
				require.Equal(t, []int{100, 64, 1}, []int{got.Count, got.Size, got.Rounds})
				require.InEpsilon(t, got.PerSecond/got.CeilingPerSecond, got.Ratio, 1e-9)
				require.Equal(t, `appendonly no, appendfsync everysec, save ""`, got.Durability)
			}
			require.Regexp(t, `^pipeline: \w+ \S+, appendonly no, .*; 100 messages of 64 B, 1 round, medians, in \S+\n$`, r.errOut)
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			require.Empty(t, left)
			require.NoDirExists(t, filepath.Join(p.dir, "data"), "it has a server of its own")
		})
	}
}

// TestBenchText: the table says what was compared with what, and the chart is a picture.
func TestBenchText(t *testing.T) {
	t.Parallel()
	p := alone(t)
	r := p.ok("bench", "stream", "--count", "100", "--rounds", "1", "--persistence", "always", "--chart", "rates.svg", "--output", "text", "--quiet")
	require.Empty(t, r.errOut)
	for _, want := range []string{
		`(?m)^WORK +PER SECOND +CEILING +RATIO `,
		`(?m)^stream-publish +[\d,]+ +P [\d,]+ +\d+\.\d\d +\d+\.\d\d to \d+\.\d\d +- +- +- +\d+\.\d\d us \(\d+\.\d\d\) `,
		`(?m)^stream +[\d,]+ +E [\d,]+ +\d+\.\d\d +\d+\.\d\d to \d+\.\d\d +\d+\.\d\d ms `,
		`(?m)^P: XADD of one field, 100 a write`,
		`(?m)^stream at 1,000 a second, with raw commands: P50 `,
	} {
		require.Regexp(t, want, r.out)
	}
	picture, err := os.ReadFile(filepath.Join(p.dir, "rates.svg"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(picture, new(struct{ XMLName xml.Name })))
	for _, want := range []string{"appendonly yes, appendfsync always", "stream-publish", "stream-append", "stream-consume"} {
		require.Contains(t, string(picture), want)
	}
}

// TestBenchDurability: the table says what each is compared with; a server that is given has its own durability.
func TestBenchDurability(t *testing.T) {
	t.Parallel()
	p := alone(t)
	r := p.ok("bench", "durability", "--count", "40", "--rounds", "1", "--output", "text")
	require.Regexp(t, `(?m)^durability-replica +[\d,]+ +none [\d,]+ +\d+\.\d\d `, r.out)
	require.Contains(t, r.out, "none: the same, at a server that keeps nothing")
	require.Regexp(t, `(?m)^durability-fsync at 1,000 a second, with a server that keeps nothing: P50 `, r.out)

	r = onShared(t).run("bench", "durability")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "bench durability runs servers of its own: leave the URL out")
}

// TestBenchGrowth: a line for each work and size, as a table, as JSON and as a picture; what needs other servers is left out at one
// that is given.
func TestBenchGrowth(t *testing.T) {
	t.Parallel()
	args := []string{"bench", "growth", "--most", "1000", "--count", "60", "--rounds", "1", "--size", "64"}
	p := alone(t)
	r := p.ok(append(args, "--axis", "length", "--axis", "groups", "--json")...)
	at := map[string][]int{}
	for _, line := range r.lines() {
		var got bench.Point
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		at[got.Work] = append(at[got.Work], got.At)
		for _, name := range []string{"axis", "growth", "p50_us", "server_us_per_message", "client_us_per_message", "server_bytes_each", "rounds", "durability"} {
			require.Contains(t, line, `"`+name+`":`)
		}
	}
	for _, work := range []string{"length-append", "length-consume", "length-range", "length-get", "length-trim"} {
		require.Equal(t, []int{10, 100, 1000}, at[work], work)
	}
	require.Equal(t, []int{1, 10}, at["groups-consume"])
	require.Regexp(t, `messages of 64 B, 1 round, medians, in \S+\n$`, r.errOut)

	r = p.ok(append(args, "--axis", "pending", "--chart", "growth.svg", "--output", "text")...)
	require.Regexp(t, `(?m)^WORK +AT +GROWTH +OF ROUNDS `, r.out)
	require.Regexp(t, `(?m)^pending-consume +1,000 +\d+\.\d\d +\d+\.\d\d to \d+\.\d\d +\d+\.\d\d us `, r.out)
	require.Contains(t, r.out, "pending: entries that the group has not settled")
	picture, err := os.ReadFile(filepath.Join(p.dir, "growth.svg"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(picture, new(struct{ XMLName xml.Name })))
	require.Contains(t, string(picture), "pending-consume")

	r = onShared(t).run(append(args, "--axis", "nodes")...)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "--axis nodes takes servers that bench starts itself: leave the URL out")
	r = onShared(t).ok(append(args, "--axis", "nodes", "--axis", "groups")...)
	require.NotContains(t, r.out, "nodes-")
	require.Contains(t, r.errOut, "nodes takes servers that bench starts itself: leave the URL out")
}

// TestBenchOnServer: at a server that is given it keeps to a scope that is gone afterwards, and says which.
func TestBenchOnServer(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	r := p.ok("bench", "stream", "--count", "100", "--rounds", "1")
	require.Len(t, r.lines(), 6)
	_, after, found := strings.Cut(r.errOut, "measuring at full speed, in the scope ")
	require.True(t, found, r.errOut)
	scope, _, _ := strings.Cut(after, ",")
	client := tiertest.Dial(t, shared)
	left, err := client.KeysBelow(t.Context(), "emq:{"+scope+"}")
	require.NoError(t, err)
	require.Empty(t, left)
	scopes, err := client.Scopes(t.Context())
	require.NoError(t, err)
	require.NotContains(t, scopes, scope)

	r = p.run("bench", "stream", "--persistence", "always")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "--persistence is of the server that bench runs itself")
}

// TestBenchInterrupted: nothing is left then, neither at a server that was given nor of one of its own.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	running := p.start("bench", "stream", "--count", "100000", "--rounds", "100")
	running.said("measuring at full speed, in the scope ")
	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.Empty(t, r.out)
	_, after, _ := strings.Cut(r.errOut, "in the scope ")
	scope, _, _ := strings.Cut(after, ",")
	left, err := tiertest.Dial(t, shared).KeysBelow(t.Context(), "emq:{"+scope+"}")
	require.NoError(t, err)
	require.Empty(t, left)

	p = alone(t)
	temp := filepath.Join(p.dir, "tmp")
	require.NoError(t, os.Mkdir(temp, 0o700))
	p.env = append(p.env, "TMPDIR="+temp)
	running = p.start("bench", "stream", "--count", "100000", "--rounds", "100")
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		sockets, _ := filepath.Glob(filepath.Join(temp, "*", "server.sock"))
		return len(sockets) == 1, "it has not started a server"
	})
	r = running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.Empty(t, r.errOut)
	leftover, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, leftover)
}

package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/report"
)

// TestFiles: the report, its charts and the README's table are what comes of the results that were committed.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, err := report.Files("../..")
	require.NoError(t, err)
	require.Contains(t, files, "README.md")
	require.Contains(t, files, "benchmarks/REPORT.md")
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is not what is made of the results: go run ./benchmarks/report/run", name)
	}
	kept, err := filepath.Glob("../results/*.svg")
	require.NoError(t, err)
	require.Len(t, kept, len(files)-2, "no chart is left over")
}

// TestFilesFollowTheResults: other figures make another report, and what is missing is told.
func TestFilesFollowTheResults(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, report.ResultsDir), 0o755))
	put := func(run string, change func(text string) string) {
		text, err := os.ReadFile(report.Name("../..", run))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(report.Name(root, run), []byte(change(string(text))), 0o600))
	}
	same := func(text string) string { return text }
	put("bench", func(text string) string { return replaceEach(t, text, "stream-publish", "per_second", 1) })
	put("peers", same)
	put("growth", func(string) string {
		return `{"work":"lanes-drain","axis":"lanes","at":1,"growth":1,"server_us_per_message":2}
{"work":"lanes-drain","axis":"lanes","at":1000,"growth":3,"growth_min":2.5,"growth_max":4,"server_us_per_message":6,"server_bytes_each":375}
{"work":"lanes-more","axis":"lanes","at":1,"growth":1,"server_us_per_message":5}
{"work":"lanes-more","axis":"lanes","at":1000,"growth":1,"growth_min":1,"growth_max":1,"server_us_per_message":5}
{"work":"nodes-full","axis":"nodes","at":3,"growth":1,"growth_min":1,"growth_max":1,"server_us_per_message":7}
`
	})
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "README.md"), readme, 0o600))
	files, err := report.Files(root)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\| publish, one stream \| P \| at least 0.75 \| 0.000.* \| \*\*missed\*\* \|$`, files["benchmarks/REPORT.md"])
	require.Regexp(t, `(?m)^- publish, one stream \(against P\): 0.000, the goal is at least 0.75: 0.00 of it\. The ceiling encodes nothing`, files["benchmarks/REPORT.md"])
	require.Regexp(t, `(?m)^\| publish, one stream \| P \| at least 0.75 \| 0.000.*: \*\*missed\*\* \|$`, files["README.md"])

	require.Contains(t, files["benchmarks/REPORT.md"], `
| lanes | 1 | 1,000 | growth | bytes each |
|---|---|---|---|---|
| `+"`lanes-drain`"+` | 2.00 | 6.00 | 3.00 (2.50 to 4.00) | 375 |
| `+"`lanes-more`"+` | 5.00 | 5.00 | 1.00 |  |

| nodes | 3 | growth | bytes each |
|---|---|---|---|
| `+"`nodes-full`"+` | 7.00 | 1.00 |  |

`)
	require.Contains(t, files["benchmarks/results/growth.svg"], ">lanes-drain 6.00 us, × 3.00<")

	put("bench", func(text string) string { return strings.ReplaceAll(text, `"work":"pack-zstd"`, `"work":"other"`) })
	_, err = report.Files(root)
	require.ErrorContains(t, err, "work pack-zstd has not been measured: make bench")
	put("bench", func(text string) string { return text + "{}\n" })
	_, err = report.Files(root)
	require.ErrorContains(t, err, "neither a machine, a command, a work, a match nor a benchmark: {}")
	put("bench", same)
	require.NoError(t, os.WriteFile(filepath.Join(root, "README.md"), []byte("nothing"), 0o600))
	_, err = report.Files(root)
	require.ErrorContains(t, err, "README.md has no place for the table")
}

// replaceEach sets a field in each round of a work.
func replaceEach(t *testing.T, text, work, field string, value float64) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["work"] == work {
			for _, round := range fields["each_round"].([]any) {
				round.(map[string]any)[field] = value
			}
		}
		changed, err := json.Marshal(fields)
		require.NoError(t, err)
		out.Write(append(changed, '\n'))
	}
	return out.String()
}

// TestMatches: the first contestant is compared round by round, and medians are those of rounds.
func TestMatches(t *testing.T) {
	t.Parallel()
	turn := func(match, who string, round int, value float64) report.Turn {
		return report.Turn{Set: "s", Match: match, Who: who, On: who + "'s", Round: round, Value: value, Unit: "jobs/s", Goal: 2, Server: 1, Client: 2}
	}
	turns := []report.Turn{
		turn("a", "us", 1, 300), turn("a", "them", 1, 100), turn("a", "them", 2, 200), turn("a", "us", 2, 200), turn("a", "us", 3, 800), turn("a", "them", 3, 400),
	}
	alone := turn("b", "us", 1, 3)
	alone.Alone, alone.Lower, alone.P99 = true, true, 7
	matches := report.Matches(append(turns, alone, turn("b", "them", 1, 1)))
	require.Len(t, matches, 2)
	require.Equal(t, report.Spread{Median: 2, Min: 1, Max: 3}, matches[0].Ratio(1))
	require.Equal(t, report.Spread{Median: 300, Min: 200, Max: 800}, matches[0].Contestants[0].Value())
	require.Equal(t, []bool{false, false, false, true}, []bool{matches[0].Behind(0), matches[0].Behind(1), matches[1].Behind(0), matches[1].Behind(1)})
	require.Equal(t, "them's", matches[0].Contestants[1].On)
	require.Equal(t, `| | who | | server us | client us | the first, times this one | goal |
|---|---|---|---|---|---|---|
| a | us | 300 (200 to 800) jobs/s | 1.00 | 2.00 |  |  |
|  | them | 200 (100 to 400) jobs/s | 1.00 | 2.00 | 2.00 (1.00 to 3.00) | at least 2: met |
| b | us | 3.00 jobs/s; 99th percentile 7.00 | 1.00 | 2.00 |  | at most 2: **missed** |
|  | them | 1.00 jobs/s | 1.00 | 2.00 | 3.00 |  |
`, report.Table(matches))
}

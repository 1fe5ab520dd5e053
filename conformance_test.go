package pipeline_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scenario is a row of docs/conformance.md: number and name, or what has none; the verdict; the test.
var scenario = regexp.MustCompile(`(?m)^\| (?:(\d+) \| (\w+)|[^|]+) \| (same|other witness: [^|]+|not on this server: [^|]+) \| (?:` + "`(.*?)`" + `|-) \|$`)

// scenarioRows are those of the page that are no heads of tables.
var scenarioRows = regexp.MustCompile(`(?m)^\| [^|]+ \|.*\|$`)

// TestConformanceHasTests: each of the 79 scenarios of the original EchoMQ has its verdict, and the test that shows it, in whose file its
// number and name stand.
func TestConformanceHasTests(t *testing.T) {
	document, err := os.ReadFile("docs/conformance.md")
	require.NoError(t, err)
	rows, next := scenario.FindAllStringSubmatch(string(document), -1), 1
	heads := strings.Count(string(document), "| the test |")
	require.Len(t, scenarioRows.FindAllString(string(document), -1), len(rows)+heads, "a row that is not number, scenario, verdict, `package.Test`")
	for _, row := range rows {
		number, name, verdict, test := row[1], row[2], row[3], row[4]
		if number != "" {
			require.Equal(t, strconv.Itoa(next), number)
			next++
		}
		if absent := strings.HasPrefix(verdict, "not on this server"); absent {
			require.Empty(t, test, number)
			continue
		}
		file := fileOf(t, test)
		if number != "" && !regexp.MustCompile(fmt.Sprintf(`\b%s %s\b|\{%s, "%s"`, number, name, number, name)).MatchString(file) {
			t.Errorf("%s %s: the file of %s does not name it", number, name, test)
		}
	}
	require.Equal(t, 80, next)
	require.Len(t, rows, 79+18)
}

// fileOf is the text of the file that has a test.
func fileOf(t *testing.T, test string) string {
	t.Helper()
	dir, name, _ := strings.Cut(test, ".")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err, test)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(dir + "/" + e.Name())
		require.NoError(t, err)
		if strings.Contains(string(source), "\nfunc "+name+"(") {
			return string(source)
		}
	}
	require.Fail(t, "there is no test", test)
	return ""
}

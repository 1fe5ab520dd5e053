package pipeline_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faults are kinds of failure that users of systems like this one have met, by number. docs/faults.md says what each is and
// which test holds us to the right behaviour.
var faults = regexp.MustCompile(`(?m)^\| (B\d+) \| .* \| ` + "`(.*?)`" + ` \|$`)

// TestFaultsHaveTests: each fault of the document has a test of the name that it gives, which names the number.
func TestFaultsHaveTests(t *testing.T) {
	document, err := os.ReadFile("docs/faults.md")
	require.NoError(t, err)
	tests := map[string]string{} // package.Test -> what is written at it
	declared := regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := declared.FindAllSubmatchIndex(source, -1)
		for i, m := range at {
			end := len(source)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			tests[filepath.ToSlash(filepath.Dir(path))+"."+string(source[m[4]:m[5]])] = string(source[m[0]:end])
		}
		return nil
	}))
	rows := faults.FindAllStringSubmatch(string(document), -1)
	require.Equal(t, strings.Count(string(document), "\n| B"), len(rows), "a row that is not number, fault, `package.Test`")
	require.Greater(t, len(rows), 50)
	for _, row := range rows {
		number, name := row[1], row[2]
		text, ok := tests[name]
		if !ok {
			t.Errorf("%s: there is no test %s", number, name)
		} else if !regexp.MustCompile(number + `\b`).MatchString(text) {
			t.Errorf("%s: %s does not name it", number, name)
		}
	}
}

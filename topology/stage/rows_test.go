package stage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/topology/stage"
)

// TestRecords: what a file has becomes data; what is none costs its line (B84).
func TestRecords(t *testing.T) {
	long := strings.Repeat("x", 1<<20+1)
	for _, tt := range []struct {
		name, format, in string
		want             []string
	}{
		{"lines", "lines", "\xef\xbb\xbfa\r\n\n \n b \n" + long + "\nc", []string{"a", " b ", "! longer than 1 MiB, which is what a message may have", "c"}},
		{"JSON", "jsonl", "\xef\xbb\xbf{}\n{\n\n7", []string{"{}", "! not JSON at byte 1: unexpected end of JSON input", "7"}},
		{"CSV", "csv", "\xef\xbb\xbfa,b\n1,x\n-1.50,<é>\n007,\n1e3,\"\"\"\n\"\n", []string{
			`{"a":1,"b":"x"}`, `{"a":-1.50,"b":"<é>"}`, `{"a":"007","b":null}`, `{"a":1e3,"b":"\"\n"}`,
		}},
		{"CSV with bad rows", "csv", "a,b\n1\n1,\"x\n2,\xff\n3,y\n", []string{
			"! 1 value, the header line has 2 columns", `! a " is not closed before the end of the file, or within 1 MiB`,
			`! column "b": not valid UTF-8: convert the file first, as with iconv`, `{"a":3,"b":"y"}`,
		}},
		{"CSV without names", "csv", "a,a\n1,2\n", []string{`!! header line: column "a" stands there twice`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, stage.RecordsOf(strings.NewReader(tt.in), tt.format))
		})
	}
}

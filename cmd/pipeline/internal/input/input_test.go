package input_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/jsontext"
	"github.com/echomq/pipeline/internal/rows"
)

// read returns what a reader gives: "line type key data event-time" of a row, or
// the error of a line.
func read(t *testing.T, cfg input.Config, text io.Reader) (rows []string) {
	t.Helper()
	cfg.File, cfg.Type = "f", "t"
	r, err := input.New(text, cfg)
	require.NoError(t, err)
	for {
		row, err := r.Next()
		var lineErr *input.LineError
		switch {
		case errors.Is(err, io.EOF):
			return rows
		case errors.As(err, &lineErr):
			rows = append(rows, err.Error())
		default:
			require.NoError(t, err)
			rows = append(rows, show(row))
		}
	}
}

func show(row input.Row) string {
	m := row.Message
	parts := []string{strconv.Itoa(row.Line), m.Type, m.Key, string(m.Data)}
	if at, ok := m.Headers.Get(input.HeaderEventTime); ok {
		parts = append(parts, at)
	}
	return strings.Join(parts, "|")
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", rows.MaxLine)
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"lines", "a\n\n b \n", []string{"1|t||a", "2|t||", "3|t|| b "}},
		{"no end", "a\nb", []string{"1|t||a", "2|t||b"}},
		{"Windows", "a\r\nb\r\n", []string{"1|t||a", "2|t||b"}},
		{"a return is no line end", "a\rb\nc\r", []string{"1|t||a\rb", "2|t||c\r"}},
		{"bytes", "\xff\x00\n", []string{"1|t||\xff\x00"}},
		{"longest", long + "\nb\n", []string{"1|t||" + long, "2|t||b"}},
		{"longest, Windows", long + "\r\nb\n", []string{"1|t||" + long, "2|t||b"}},
		{"too long", long + "x\nb\n", []string{"f:1: " + rows.ErrTooLong.Error(), "2|t||b"}},
		{"much too long", strings.Repeat(long, 3) + "\nb\n" + long + "xxxx", []string{
			"f:1: " + rows.ErrTooLong.Error(), "2|t||b", "f:3: " + rows.ErrTooLong.Error(),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := read(t, input.Config{Format: "lines"}, strings.NewReader(tc.in))
			require.True(t, equal(tc.want, got), "%.200q", got)
		})
	}
}

// equal spares the reports of a difference a megabyte.
func equal(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }

func TestJSON(t *testing.T) {
	keyed := input.Config{Format: "json", Key: "k", Time: "at"}
	for _, tc := range []struct {
		name string
		cfg  input.Config
		in   string
		want []string
	}{
		{"values", input.Config{Format: "json"}, "{\"a\": 1}\n[]\n\n \t\n 12345678901234567890.10 \n\"x\"\nnull\n", []string{
			`1|t||{"a": 1}`, "2|t||[]", "5|t||12345678901234567890.10", `6|t||"x"`, "7|t||null",
		}},
		{"byte order mark", input.Config{Format: "json"}, "\xef\xbb\xbf{}\n", []string{"1|t||{}"}},
		{"bad lines", input.Config{Format: "json"}, "{\n{} {}\n\"\xff\"\n{}\n", []string{
			"f:1: not JSON at byte 1: unexpected end of JSON input",
			"f:2: not JSON at byte 4: invalid character '{' after top-level value",
			"f:3: " + jsontext.ErrUTF8.Error(), "4|t||{}",
		}},
		{"key and time", keyed, `{"k":"é\n","at":"2016-01-01 00:30"}` + "\n" + `{"k":1e3,"at":"2016-01-01T00:00:00.5+01:00","k2":{}}` + "\n", []string{
			"1|t|é\n|" + `{"k":"é\n","at":"2016-01-01 00:30"}|2016-01-01T00:30:00Z`,
			`2|t|1e3|{"k":1e3,"at":"2016-01-01T00:00:00.5+01:00","k2":{}}|2015-12-31T23:00:00.5Z`,
		}},
		{"key and time missing", keyed, "{}\n7\n{\"k\":null}\n{\"k\":[1]}\n{\"k\":true}\n{\"k\":\"\",\"at\":\"noon\"}\n", []string{
			`f:1: no field "k"`, `f:2: field "k" is asked for, and this is not an object`,
			`f:3: field "k" is null: want a string, a number or a boolean`,
			`f:4: field "k" is [1]: want a string, a number or a boolean`,
			`f:5: no field "at"`,
			`f:6: field "at" is "noon": want a time as in 2026-11-29T13:00:00Z, 2026-11-29 13:00:05.25 or 2026/11/29 13:00:05 (UTC where no zone is given)`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, read(t, tc.cfg, strings.NewReader(tc.in)))
		})
	}
}

const bareQuote = `a " in a value without quotes: put the value into quotes, and write the " twice`

func TestCSV(t *testing.T) {
	plain := input.Config{Format: "csv"}
	for _, tc := range []struct {
		name string
		cfg  input.Config
		in   string
		want []string
	}{
		{"nothing", plain, "", nil},
		{"header line only", plain, "a,b\n", nil},
		{"rows", plain, "a,b\n1,x\n\n,\" y\"\"\"\n", []string{`2|t||{"a":"1","b":"x"}`, `4|t||{"a":"","b":" y\""}`}},
		{"order and odd names", plain, "z,,\"a,\"\n1,2,3\n", []string{`2|t||{"z":"1","":"2","a,":"3"}`}},
		{"escapes", plain, "a\n<é\\\t\u2028>\n", []string{"2|t||" + `{"a":"<é\\\t\u2028>"}`}},
		{"Windows, mark", plain, "\xef\xbb\xbfa,b\r\n1,2\r\n", []string{`2|t||{"a":"1","b":"2"}`}},
		{"row of several lines", plain, "a,b\n1,\"x\n\ny\"\n2,z\n", []string{`2|t||{"a":"1","b":"x\n\ny"}`, `5|t||{"a":"2","b":"z"}`}},
		{"widths", plain, "a,b\n1\n1,2,3\n1,2\n", []string{
			"f:2: 1 value, the header line has 2 columns", "f:3: 3 values, the header line has 2 columns", `4|t||{"a":"1","b":"2"}`,
		}},
		{"open quote", plain, "a,b\n1,\"x\n2,y\n3,z\n", []string{
			`f:2: a " is not closed before the end of the file, or within 1 MiB`, `3|t||{"a":"2","b":"y"}`, `4|t||{"a":"3","b":"z"}`,
		}},
		{"bare quotes", plain, "a,b\n1,5\" pipe\n2,y\n3,6\" pipe\n4,x\"y\"\n5,\"x\"y\"z\"\n6,z\n", []string{
			"f:2: " + bareQuote, `3|t||{"a":"2","b":"y"}`,
			`f:4: a " is not closed before the end of the file, or within 1 MiB`,
			"f:5: " + bareQuote, `f:6: a " inside quotes: write it twice`, `7|t||{"a":"6","b":"z"}`,
		}},
		{"not UTF-8", plain, "a\n\xff\nx\n", []string{`f:2: column "a": ` + jsontext.ErrUTF8.Error(), `3|t||{"a":"x"}`}},
		{"key and time", input.Config{Format: "csv", Key: "net", Time: "at"}, "at,net\n2016/01/01 00:30:04.91,pr\n2016,us\n", []string{
			`2|t|pr|{"at":"2016/01/01 00:30:04.91","net":"pr"}|2016-01-01T00:30:04.91Z`,
			`f:3: field "at" is "2016": want a time as in 2026-11-29T13:00:00Z, 2026-11-29 13:00:05.25 or 2026/11/29 13:00:05 (UTC where no zone is given)`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, read(t, tc.cfg, strings.NewReader(tc.in)))
			require.Equal(t, tc.want, read(t, tc.cfg, iotest.OneByteReader(strings.NewReader(tc.in))))
		})
	}
}

// An open quote must not take more than its bound, and must not take it again for
// each line.
func TestCSVOpenQuoteIsBounded(t *testing.T) {
	var in strings.Builder
	in.WriteString("a,b\n1,\"x\n")
	const n = 300_000
	for range n {
		in.WriteString("2,y\n")
	}
	got := read(t, input.Config{Format: "csv"}, strings.NewReader(in.String()))
	require.Len(t, got, n+1)
	require.Contains(t, got[0], `f:2: a " is not closed`)
	require.Equal(t, `300002|t||{"a":"2","b":"y"}`, got[n])
}

func TestCSVHeaderLine(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		cfg      input.Config
		want     string
	}{
		{"twice", "a,b,a\n", input.Config{}, `f:1: header line: column "a" stands there twice`},
		{"not UTF-8", "a,\xff\n", input.Config{}, "f:1: header line, column 2: " + jsontext.ErrUTF8.Error()},
		{"does not parse", "a\"b\"\n", input.Config{}, "f:1: header line: " + bareQuote},
		{"no key", "a,b\n", input.Config{Key: "c"}, `--key "c": no such column, the header line has ["a" "b"]`},
		{"no time", "a,b\n", input.Config{Time: "A"}, `--time "A": no such column, the header line has ["a" "b"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.File, tc.cfg.Format = "f", "csv"
			_, err := input.New(strings.NewReader(tc.in), tc.cfg)
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestFileError(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, format := range input.Formats {
		r, err := input.New(io.MultiReader(strings.NewReader("1\n"), iotest.ErrReader(broken)), input.Config{Format: format})
		require.NoError(t, err)
		for err == nil {
			_, err = r.Next()
		}
		require.ErrorIs(t, err, broken, format)
	}
}

func TestOffset(t *testing.T) {
	r, err := input.New(strings.NewReader("a\r\nbc\n"), input.Config{Format: "lines"})
	require.NoError(t, err)
	for _, want := range []int64{3, 6} {
		row, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, want, row.Offset)
		require.Equal(t, codec.FormatBytes, row.Message.Format)
	}
}

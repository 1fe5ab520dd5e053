package show_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
)

var entry = codec.EntryID{Ms: 1704117200123, Seq: 7}

func record(m codec.Message) codec.Record {
	id, _ := codec.ServerID("EVT", 5, entry)
	return codec.Record{ID: id, Position: codec.Position{Entry: entry}, Addr: entry, Message: m}
}

func typed(contentType, data string) codec.Message {
	return codec.Message{Headers: codec.Headers{{Key: codec.HeaderContentType, Value: contentType}}, Data: []byte(data)}
}

func TestAppendJSON(t *testing.T) {
	r := record(codec.Message{
		Type: "sold", Key: "kä\n\x1b", Data: []byte(`{ "b": 1.50, "a": [1,
2], "n": 12345678901234567890 }`),
		Headers: codec.Headers{{Key: "z", Value: "<1>"}, {Key: "content-type", Value: "application/json"}},
	})
	r.Position.Index = 3
	got := string(show.AppendJSON([]byte("> "), &r))
	require.Equal(t, `> {"id":"EVT000xYA5jsMp","entry":"1704117200123-7#3","time":"2024-01-01T13:53:20.123Z","type":"sold",`+
		`"key":"kä\n\u001b","headers":{"z":"<1>","content-type":"application/json"},`+
		`"data":{"b":1.50,"a":[1,2],"n":12345678901234567890}}`, got)
}

func TestData(t *testing.T) {
	for _, tc := range []struct {
		name string
		m    codec.Message
		want string
	}{
		{"JSON by its type", typed("application/json", ` 12 `), `12`},
		{"JSON by a suffix and with a parameter", typed("Application/CloudEvents+JSON; charset=utf-8", `"x"`), `"x"`},
		{"JSON that is none", typed("application/json", `{`), `"ew==","encoding":"base64"`},
		{"JSON that is not UTF-8", typed("application/json", "\"\xff\""), `"Iv8i","encoding":"base64"`},
		{"text", typed("text/plain; charset=utf-8", "a\n<é>"), `"a\n<é>"`},
		{"text that looks like JSON", typed("text/plain", `{"a":1}`), `"{\"a\":1}"`},
		{"text that is not UTF-8", typed("text/plain", "\xff"), `"/w==","encoding":"base64"`},
		{"undeclared object", codec.Message{Data: []byte(" {\"a\": 1}\n")}, `{"a":1}`},
		{"undeclared number", codec.Message{Data: []byte("12")}, `"MTI=","encoding":"base64"`},
		{"undeclared bytes", codec.Message{Data: []byte("hi\x00")}, `"aGkA","encoding":"base64"`},
		{"declared bytes", typed("application/octet-stream", `{"a":1}`), `"eyJhIjoxfQ==","encoding":"base64"`},
		{"nothing", codec.Message{}, `"","encoding":"base64"`},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, data(t, tc.m)) })
	}
}

// data is the JSON from the value of "data" on; the whole has to be valid JSON.
func data(t *testing.T, m codec.Message) string {
	r := record(m)
	line := show.AppendJSON(nil, &r)
	require.True(t, json.Valid(line), "%s", line)
	require.NotContains(t, string(line), "\n")
	_, after, ok := strings.Cut(string(line), `,"data":`)
	require.True(t, ok)
	return strings.TrimSuffix(after, "}")
}

func TestMsgpack(t *testing.T) {
	type pair struct {
		B int
		A string `msgpack:"a"`
	}
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"nil", nil, `null`},
		{"booleans", []bool{true, false}, `[true,false]`},
		{
			"integers",
			[]any{0, 127, 128, -1, -32, -33, 1 << 40, int64(math.MinInt64), uint64(math.MaxUint64)},
			`[0,127,128,-1,-32,-33,1099511627776,-9223372036854775808,18446744073709551615]`,
		},
		{"floats", []any{1.5, float32(0.1), 3.0, 1e300}, `[1.5,0.1,3,1e+300]`},
		{"text", "a\"<\n", `"a\"<\n"`},
		{"long text", strings.Repeat("é", 300), `"` + strings.Repeat("é", 300) + `"`},
		{"struct", pair{7, "x"}, `{"B":7,"a":"x"}`},
		{"nested", map[string]any{"l": []any{map[string]any{}, []any{}}}, `{"l":[{},[]]}`},
		{"many", make([]int, 20), `[0` + strings.Repeat(",0", 19) + `]`},
		{"time", time.Date(2026, 11, 29, 1, 2, 3, 4000, time.UTC), `"2026-11-29T01:02:03.000004Z"`},
		{"bytes inside", map[string]any{"b": []byte{1}}, ``},
		{"NaN", math.NaN(), ``},
		{"number as key", map[int]int{1: 2}, ``},
		{"text that is not UTF-8", "\xff", ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var m codec.Message
			require.NoError(t, codec.Msgpack[any]().Encode(&m, tc.v))
			got := data(t, m)
			if tc.want == "" {
				require.Regexp(t, `^"[A-Za-z0-9+/]+=*","encoding":"base64","format":"msgpack"$`, got)
				return
			}
			require.Equal(t, tc.want, got)
		})
	}
	t.Run("too deep or broken", func(t *testing.T) {
		for _, raw := range []string{"\xc1", "\x92\x01", "\xd4\x05\x00", "", strings.Repeat("\x91", 70) + "\x01", "\x01\x01"} {
			require.Contains(t, data(t, codec.Message{Format: codec.FormatMsgpack, Data: []byte(raw)}), `"format":"msgpack"`)
		}
	})
}

func TestForeignAndUndecodable(t *testing.T) {
	r := codec.Record{Position: codec.Position{Entry: entry}, Addr: entry, Fields: []string{"b", "1", "b", "\"2\""}}
	require.Equal(t, `{"id":"","entry":"1704117200123-7","time":"2024-01-01T13:53:20.123Z","type":"","key":"","headers":{},`+
		`"data":null,"fields":["b","1","b","\"2\""]}`, string(show.AppendJSON(nil, &r)))
	require.Equal(t, `2024-01-01 13:53:20.123  1704117200123-7  (foreign)  b=1 b="2"`, show.Line(&r, 0))

	bad := record(codec.Message{})
	bad.Fields, bad.Err = []string{"m", "\xff"}, errors.New("codec: undecodable")
	require.Equal(t, `{"id":"EVT000xYA5jsMp","entry":"1704117200123-7","time":"2024-01-01T13:53:20.123Z","type":"","key":"","headers":{},`+
		`"data":null,"fields":["bQ==","/w=="],"encoding":"base64","error":"codec: undecodable"}`, string(show.AppendJSON(nil, &bad)))
	require.Equal(t, `2024-01-01 13:53:20.123  EVT000xYA5jsMp  (undecodable)  m=�`, show.Line(&bad, 0))
}

func TestLine(t *testing.T) {
	r := record(codec.Message{Type: "ty\x1b[31mpe", Key: "k", Data: []byte(`{"a":"日本"}`)})
	require.Equal(t, `2024-01-01 13:53:20.123  EVT000xYA5jsMp  ty\x1b[31mpe  k  {"a":"日本"}`, show.Line(&r, 0))
	require.Equal(t, `2024-01-01 13:53:20.123  EVT0…`, show.Line(&r, 30))
	require.Equal(t, 65, show.Width(show.Line(&r, 66)), "a wide character is not cut in half")
	require.True(t, strings.HasSuffix(show.Line(&r, 67), "日…"))
}

func TestDetail(t *testing.T) {
	r := record(codec.Message{
		Type: "sold", Key: "k\x1b", Data: []byte(`{"a":[1,"<\u001b>"]}`),
		Headers: codec.Headers{{Key: "content-type", Value: "application/json"}, {Key: "x", Value: "y"}},
	})
	require.Equal(t, `id       EVT000xYA5jsMp
entry    1704117200123-7
time     2024-01-01T13:53:20.123Z
type     sold
key      k\x1b
headers  content-type: application/json
         x: y
data     {
           "a": [
             1,
             "<\u001b>"
           ]
         }
`, show.Detail(&r))
	foreign := codec.Record{Position: codec.Position{Entry: entry}, Addr: entry, Fields: []string{"a", "1", "b", "\n"}, Err: errors.New("no")}
	require.Equal(t, "entry    1704117200123-7\ntime     2024-01-01T13:53:20.123Z\nfields   a: 1\n         b: \\n\nerror    no\n", show.Detail(&foreign))
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 38094: "38,094", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		require.Equal(t, want, show.Number(n))
	}
	require.Equal(t, "1 message", show.Count(1, "message"))
	require.Equal(t, "1,000 messages", show.Count(1000, "message"))
	require.Equal(t, "38,094/s", show.Rate(38094, time.Second))
	require.Equal(t, "0.5/s", show.Rate(1, 2*time.Second))
	require.Equal(t, "0.0/s", show.Rate(0, 0))
	for d, want := range map[time.Duration]string{
		1234 * time.Nanosecond: "1µs", 12345 * time.Microsecond: "12ms", 1234567 * time.Microsecond: "1.23s", 90500 * time.Millisecond: "1m31s",
	} {
		require.Equal(t, want, show.Duration(d))
	}
}

func TestTable(t *testing.T) {
	require.Equal(t, ""+
		"name  count  last\n"+
		"日本      1  x\n"+
		"\\x1b     12  longer\n", show.Table([][]string{{"name", ">count", "last"}, {"日本", "1", "x"}, {"\x1b", "12", "longer"}}))
	require.Empty(t, show.Table(nil))
}

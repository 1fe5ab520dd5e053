package stage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/topology/stage"
)

func record(data string) *codec.Record {
	r := &codec.Record{Addr: codec.EntryID{Ms: 1704117200000}}
	r.Key, r.Type, r.Data = "ann", "order", []byte(data)
	r.Headers = codec.Headers{{Key: "tenant", Value: "a"}}
	return r
}

func TestExpressions(t *testing.T) {
	tests := []struct {
		name, expr, data string
		want             any
		err              string
	}{
		{"a field", "data.a.b", `{"a": {"b": 5}}`, 5, ""},
		{"an absent field", "data.x", `{}`, nil, ""},
		{"a field of a text", "data.a.b", `{"a": "x"}`, nil, "cannot fetch b from data.a, which is string (data is map)"},
		{"a number that has 64 bits", "data.n + 1", `{"n": 9007199254740993}`, 9007199254740994, ""},
		{"an integer with an exponent", "data.n % 7", `{"n": 1e3}`, 6, ""},
		{"a fraction", "data.n * 2", `{"n": 1.25}`, 2.5, ""},
		{"a comparison that cannot be", "data.mag >= 5", `{"mag": "x"}`, nil, `map.data: "data.mag >= 5": invalid operation: string >= int at 1:10 (data is map)`},
		{"what is absent is compared", "data.mag >= 5", `{}`, nil, "invalid operation: <nil> >= int"},
		{"no JSON is a text", "data + '!'", `hello`, "hello!", ""},
		{"the message", "[key, type, headers.tenant, headers.none]", `{}`, []any{"ann", "order", "a", ""}, ""},
		{"its time", "time", `{}`, time.UnixMilli(1704117200000).UTC(), ""},
		{"a date", "date(data, '2006/01/02 15:04:05', 'UTC').Unix()", `2016/01/01 00:30:04.91`, int64(1451608204), ""},
		{"functions that make texts", "join(split(replace(data, 'b', 'x'), ','), '-') + toJSON([1]) + toBase64('a')", `a,b,c`, "a-x-c[1]YQ==", ""},
		{"a loop", "sum(map(data, # * 2)) + len(filter(data, # in [1, 3]))", `[1, 2, 3]`, 14, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := stage.Eval(stage.Expr(tt.expr), record(tt.data))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				require.True(t, errors.As(err, new(*stage.EvalError)))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPayloads(t *testing.T) {
	r := record("\x82\xa1a\x01\xa1b\xcb\x3f\xf4\x00\x00\x00\x00\x00\x00")
	r.Format = codec.FormatMsgpack
	got, err := stage.Eval("data", r)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": 1, "b": 1.25}, got)

	r = record(`{"a": 1`)
	r.Headers = codec.Headers{{Key: codec.HeaderContentType, Value: "application/json"}}
	_, err = stage.Eval("data.a", r)
	require.ErrorContains(t, err, "the data cannot be read as JSON")

	r = record(`{"a": 1}`)
	r.Headers = codec.Headers{{Key: codec.HeaderContentType, Value: "text/plain"}}
	got, err = stage.Eval("data", r)
	require.NoError(t, err)
	require.Equal(t, `{"a": 1}`, got)
}

// TestVariables: an expression sees what it names of its message, and nothing of the one before.
func TestVariables(t *testing.T) {
	trial, err := stage.NewTrial("s", stage.Config{From: "s/in", To: "s/out", Map: &stage.Map{
		Data: `[$env.key, key, get($env, "type"), headers.h, map([1], {type})[0], $env["headers"].h]`, Key: "id", Type: "string(time.UnixMilli())",
		Headers: map[string]stage.Expr{"of": "key + headers.h"},
	}}, stage.TrialOptions{})
	require.NoError(t, err)
	defer trial.Close()
	for i, n := range []string{"1", "2"} {
		r := record("{}")
		r.Key, r.Type, r.Headers, r.Addr.Ms = "k"+n, "t"+n, codec.Headers{{Key: "h", Value: "h" + n}}, 1704117200000+uint64(i)
		r.ID, _ = codec.ServerID("ORD", 1, r.Addr)
		tried := trial.Try(t.Context(), *r)
		require.NoError(t, tried.Err)
		m := tried.Outputs[0].Message
		require.JSONEq(t, strings.ReplaceAll(`["kN", "kN", "tN", "hN", "tN", "hN"]`, "N", n), string(m.Data))
		of, _ := m.Headers.Get("of")
		require.Equal(t, "k"+n+"h"+n, of)
		require.Equal(t, r.ID.String(), m.Key)
		require.Equal(t, fmt.Sprint(r.Addr.Ms), m.Type)
	}
}

// TestCost has expressions that would take hours, or all memory, and are stopped at once (B86).
func TestCost(t *testing.T) {
	numbers := "[" + strings.Repeat("1,", 9_999) + "1]"
	doubled := "let a0 = data; "
	for i := range 40 {
		n := string(rune('b' + i/10))
		doubled += "let x" + n + string(rune('0'+i%10)) + " = " + prior(i) + " + " + prior(i) + "; "
	}
	tests := []struct{ name, expr, data string }{
		{"loops in loops", "all(data, all(data, all(data, true)))", numbers},
		{"a search in a loop", "count(data, # + 1 in data)", numbers},
		{"a function in a loop", "map(data, sum(data))", numbers},
		{"a text that doubles", doubled + prior(40), `"xxxxxxxxxx"`},
		{"a text that doubles in a loop", "reduce(1..100, #acc + #acc, data)", `"x"`},
		{"a text with long parts", "replace(data, '', data)", `"` + strings.Repeat("x", 100_000) + `"`},
		{"a range", "len(1..1000000000)", `1`},
		{"arrays in arrays", "map(1..10000, 1..10000)", `1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			_, err := stage.Eval(stage.Expr(tt.expr), record(tt.data))
			require.True(t, errors.As(err, new(*stage.EvalError)), "%v", err)
			require.Regexp(t, "costs more than an expression may|memory budget exceeded", err.Error())
			require.Less(t, time.Since(start), time.Minute)
		})
	}
	items := "[" + strings.Repeat(`{"name": "Ann", "xs": [1, 2]},`, 5_000) + "{}]"
	got, err := stage.Eval(`len(filter(data, #.name contains "n" and lower(#.name) == "ann" and 2 in #.xs))`, record(strings.Replace(items, "{}", `{"name": "", "xs": []}`, 1)))
	require.NoError(t, err, "what goes through its own elements is not dear")
	require.Equal(t, 5000, got)
	for _, gone := range []stage.Expr{"repeat('x', 9)", "uniq(data)", "now()"} {
		_, err := stage.Eval(gone, record("1"))
		require.ErrorContains(t, err, "unknown name", gone)
	}
	_, err = stage.Eval(stage.Expr("1"+strings.Repeat("+data", 300)), record("1"))
	require.ErrorContains(t, err, "exceeds maximum allowed nodes")
}

func prior(i int) string {
	if i == 0 {
		return "a0"
	}
	i--
	return "x" + string(rune('b'+i/10)) + string(rune('0'+i%10))
}

package stage_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/topology/stage"
)

// texts of JSON, and of what is none.
var texts = []string{
	`{"a": 1, "b": [1.5, -0, 0.0, 1e3, 1E-7, 1.0], "a": "twice"}`, ` [ ] `, `{ }`, `[{}, [], ""]`, `"a\u00e9\n\"\\"`, "\"é\u2028<&>\x7f\"", "\"\xff\"",
	`123456789012345678`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775809`, `1e400`, `1e15`, `123456789012345.0`, `1234567890123456.0`, `-1.25e-3`,
	`true`, `false`, `null`, `tru`, `nul`, `trueish`, `01`, `-`, `1.`, `.5`, `1e`, `+1`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{1:2}`, `"`, `"\"`, `"\x"`, "\"\n\"", ``, ` `,
	`1 2`, `{} x`, "1\x00", "\x00", `{"id": "1234567890123456789", "n": 1.0}`, strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("[", 99),
}

// FuzzJSON: what is read is what package json reads, with integers as integers; what is written is what it writes.
func FuzzJSON(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := stage.DecodeJSON([]byte(text))
		if wantErr != nil {
			require.Equal(t, wantErr, err)
			return
		}
		require.NoError(t, err)
		exact, err := json.Marshal(got)
		require.NoError(t, err)
		written, err := stage.EncodeJSON(got)
		require.NoError(t, err)
		require.Equal(t, string(exact), string(written))
		require.Equal(t, want, floats(t, got))
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		written, err = stage.EncodeJSON(text)
		require.NoError(t, err)
		require.Equal(t, string(quoted), string(written))
	})
}

// floats makes integers what package json makes of them.
func floats(t *testing.T, v any) any {
	switch x := v.(type) {
	case int:
		return float64(x)
	case float64:
		n := int64(x)
		require.False(t, math.Abs(x) < 1e15 && float64(n) == x, "%v is an integer", x)
	case []any:
		for i := range x {
			x[i] = floats(t, x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = floats(t, x[k])
		}
	}
	return v
}

// TestIntegers: integers stay what they are as far as 64 bits hold them, whatever stands beside them.
func TestIntegers(t *testing.T) {
	got, err := stage.DecodeJSON([]byte(`{"a": 9007199254740993, "b": 1.0, "c": "1234567890123456789", "d": -0, "e": 18446744073709551615, "f": "\n"}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": 9007199254740993, "b": 1, "c": "1234567890123456789", "d": 0, "e": 18446744073709551615.0, "f": "\n"}, got)
	for v, want := range map[float64]string{1e21: "1e+21", 1e20: "100000000000000000000", 1e-7: "1e-07", 0.1: "0.1", math.Copysign(0, -1): "-0"} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		written, err := stage.EncodeJSON(v)
		require.NoError(t, err, want)
		require.Equal(t, string(text), string(written))
	}
	for _, v := range []any{math.NaN(), map[string]any{"a": []any{math.Inf(1)}}, []any{func() {}}, map[string]any(nil), []any(nil), map[string]string{"b": "<", "a": ""}, []string{"é"}, int64(5)} {
		text, want := json.Marshal(v)
		written, err := stage.EncodeJSON(v)
		require.Equal(t, want, err)
		require.Equal(t, string(text), string(written))
	}
}

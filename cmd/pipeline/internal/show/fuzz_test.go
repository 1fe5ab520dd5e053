package show_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
)

// FuzzJSON: whatever a message holds, its line is one JSON value without a line break, and its text has nothing that a
// terminal would obey.
func FuzzJSON(f *testing.F) {
	f.Add("t", "k", "h", "v", []byte(`{"a":1}`), uint8(0))
	f.Add("\x1b[2J", "\xff", "\n", "\u2028", []byte{0x81, 0xa1, 'a', 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0}, uint8(1))
	f.Add("", "", "", "", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, uint8(1))
	f.Fuzz(func(t *testing.T, typ, key, name, value string, data []byte, format uint8) {
		r := &codec.Record{Message: codec.Message{Type: typ, Key: key, Headers: codec.Headers{{Key: name, Value: value}}, Data: data, Format: codec.Format(format % 2)}}
		line := show.AppendJSON(nil, r)
		require.True(t, json.Valid(line), "%s", line)
		require.NotContains(t, string(line[:len(line)-1]), "\n")
		require.NotContains(t, show.Line(r, 80), "\x1b")
		require.NotContains(t, show.Detail(r), "\x1b")
	})
}

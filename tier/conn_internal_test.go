package tier

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answered is a connection on which a server has answered so.
func answered(text string) *Conn { return &Conn{in: bufio.NewReader(strings.NewReader(text))} }

func TestReplies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		first      int64
		value      any
	}{
		{"status", "+OK\r\n", 0, "OK"},
		{"number", ":42\r\n", 42, int64(42)},
		{"text", "$3\r\na\r\n\r\n", 3, "a\r\n"},
		{"nothing", "$-1\r\n", -1, nil},
		{"no list", "*-1\r\n", -1, nil},
		{"lists", "*2\r\n*1\r\n$1\r\na\r\n:7\r\n", 2, []any{[]any{"a"}, int64(7)}},
		{"empty list", "*0\r\n", 0, []any{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := answered(tc.text + tc.text)
			first, err := w.Skip()
			require.NoError(t, err)
			require.Equal(t, tc.first, first)
			value, err := w.Value() // that of the second: the first was read to its end
			require.NoError(t, err)
			require.Equal(t, tc.value, value)
			_, err = w.Skip()
			require.ErrorIs(t, err, io.EOF)
		})
	}
	for _, text := range []string{"-OOM command not allowed\r\n", "*2\r\n:1\r\n-OOM command not allowed\r\n"} {
		_, err := answered(text).Skip()
		require.Equal(t, Refusal("OOM command not allowed"), err)
		_, err = answered(text).Value()
		require.Equal(t, Refusal("OOM command not allowed"), err)
	}
	_, err := answered("HTTP/1.1 400\r\n").Skip()
	require.ErrorContains(t, err, `begins with "HTTP/1.1 400"`)
	require.ErrorIs(t, err, errReply)
}

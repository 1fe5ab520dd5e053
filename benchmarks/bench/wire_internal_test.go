package bench

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answered is a wire on which a server has answered so.
func answered(text string) *wire { return &wire{in: bufio.NewReader(strings.NewReader(text))} }

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
			first, err := w.skip()
			require.NoError(t, err)
			require.Equal(t, tc.first, first)
			value, err := w.value() // that of the second: the first was read to its end
			require.NoError(t, err)
			require.Equal(t, tc.value, value)
			_, err = w.skip()
			require.ErrorIs(t, err, io.EOF)
		})
	}
	for _, text := range []string{"-OOM command not allowed\r\n", "*2\r\n:1\r\n-OOM command not allowed\r\n"} {
		_, err := answered(text).skip()
		require.Equal(t, refusal("OOM command not allowed"), err)
		_, err = answered(text).value()
		require.Equal(t, refusal("OOM command not allowed"), err)
	}
	_, err := answered("HTTP/1.1 400\r\n").skip()
	require.ErrorContains(t, err, `a reply begins with "HTTP/1.1 400"`)
}

// TestFlowEnds: whatever fails on either side, and the end of ctx, ends both.
func TestFlowEnds(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	for _, tc := range []struct {
		name   string
		server func(conn net.Conn, stop context.CancelCauseFunc)
		want   error
	}{
		{"refused", func(conn net.Conn, _ context.CancelCauseFunc) {
			_, _ = conn.Write([]byte("-ERR no\r\n"))
			_, _ = io.Copy(io.Discard, conn)
		}, refusal("ERR no")},
		{"hung up", func(conn net.Conn, _ context.CancelCauseFunc) { conn.Close() }, io.EOF},
		{"silent", func(_ net.Conn, stop context.CancelCauseFunc) { stop(enough) }, enough},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			go tc.server(far, stop)
			w := &wire{near, bufio.NewReader(near)}
			err := w.flow(ctx, "X", 1000, 4, func(int) []byte { return []byte("x") }, func(int) error {
				_, err := w.skip()
				return err
			})
			require.ErrorIs(t, err, tc.want)
		})
	}
}

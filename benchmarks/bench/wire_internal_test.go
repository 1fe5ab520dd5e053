package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

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
		}, tier.Refusal("ERR no")},
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
			w := &wire{tier.NewConn(near, 4096)}
			err := w.flow(ctx, "X", 1000, 4, func(int) []byte { return []byte("x") }, func(int) error {
				_, err := w.Skip()
				return err
			})
			require.ErrorIs(t, err, tc.want)
		})
	}
}

package tier_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestConn: it is logged in, and reaches the server that takes the key.
func TestConn(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		key := tier.StateKey(f.scope(), "x")
		conn, err := f.client.Conn(f.ctx, key, 4096)
		require.NoError(t, err)
		defer conn.Close()
		reply, err := conn.Ask("HSET", key, "f", "v")
		require.NoError(t, err)
		require.Equal(t, int64(1), reply)
		require.Equal(t, "v", f.text("HGET", key, "f"))

		conn.Send(tier.AppendCommand(nil, "HGET", key, "f"))
		conn.Send(tier.CommandHead(2, "HGET"), key, "f")
		require.NoError(t, conn.Flush())
		for range 2 {
			reply, err = conn.Value()
			require.NoError(t, err)
			require.Equal(t, "v", reply)
		}
	})
}

// TestConnUnreachable: the error is that of the connection.
func TestConnUnreachable(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	s.Kill()
	_, err := f.client.Conn(f.ctx, "k", 4096)
	require.ErrorIs(t, err, tier.ErrUnreachable)
}

// TestDropScope: nothing of the scope is left, not its number, and nothing of another is touched.
func TestDropScope(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		gone, stays := f.scope(), f.scope()
		number := f.node(gone)
		kept := f.node(stays)
		for i := range 600 { // more than a page
			f.text("SET", fmt.Sprintf("emq:{%s}:x%d", gone, i), "1")
		}
		f.text("SET", "emq:{"+stays+"}:x", "1")

		require.NoError(t, f.client.DropScope(f.ctx, gone))
		left, err := f.client.KeysBelow(f.ctx, "emq:{"+gone+"}")
		require.NoError(t, err)
		require.Empty(t, left)
		holder, err := f.client.ScopeOfNode(f.ctx, number)
		require.NoError(t, err)
		require.Empty(t, holder)
		registered, err := f.client.RegisteredNode(f.ctx, gone)
		require.NoError(t, err)
		require.Equal(t, -1, registered)
		f.requireRegistered(stays, kept)
		require.Equal(t, "1", f.text("GET", "emq:{"+stays+"}:x"))

		require.NoError(t, f.client.DropScope(f.ctx, gone), "again")
		require.ErrorIs(t, f.client.DropScope(f.ctx, "a b"), tier.ErrName)
	})
}

package tier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestTransactionClosed: whoever closes the client does not wait for a transaction that is on its way, even one who is called while it is; its
// outcome is unknown then, and none is opened again.
func TestTransactionClosed(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	c, err := tier.Dial(t.Context(), s.URL(), tier.Options{})
	require.NoError(t, err)
	key := tier.StateKey(setUp(t, s).scope(), "x")
	tx := c.Transaction()
	open := func() error { _, err := tx.Open(t.Context(), []string{key}); return err }
	require.NoError(t, open())
	_, ran, err := tx.Exec(t.Context(), func(conn *tier.Conn) int {
		conn.Send(tier.AppendCommand(nil, "HSET", key, "f", "v"))
		return 1
	}, c.Close, func(conn *tier.Conn, _ int) error { _, err := conn.Skip(); return err })
	require.False(t, ran)
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	require.ErrorIs(t, open(), tier.ErrClosed)
}

// TestTransactionPanics: after a panic in what its caller does meanwhile, a transaction is not open, so that the next one cannot take
// replies for its own that nobody has read.
func TestTransactionPanics(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	key := tier.StateKey(setUp(t, s).scope(), "x")
	tx := tiertest.Dial(t, s).Transaction()
	_, err := tx.Open(t.Context(), []string{key})
	require.NoError(t, err)
	exec := func(meanwhile func()) (ran bool, err error) {
		_, ran, err = tx.Exec(t.Context(), func(conn *tier.Conn) int {
			conn.Send(tier.AppendCommand(nil, "HSET", key, "f", "v"))
			return 1
		}, meanwhile, func(conn *tier.Conn, _ int) error { _, err := conn.Skip(); return err })
		return ran, err
	}
	require.Panics(t, func() { _, _ = exec(func() { panic("of a callback") }) })
	ran, err := exec(func() {})
	require.NoError(t, err)
	require.False(t, ran)
}

package tier_test

import (
	"strconv"
	"testing"
	"time"

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
	hand := func() error { return tx.Hand(t.Context(), key, hset(key)) }
	require.NoError(t, hand())
	ran, err := tx.Run(t.Context(), c.Close, skip)
	require.False(t, ran)
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	require.ErrorIs(t, open(), tier.ErrClosed)
	require.ErrorIs(t, hand(), tier.ErrClosed)
}

// hset is a command that a transaction is to run, skip takes its reply.
func hset(key string) func(*tier.Conn) int {
	return func(conn *tier.Conn) int {
		conn.Send(tier.AppendCommand(nil, "HSET", key, "f", "v"))
		return 1
	}
}

func skip(conn *tier.Conn, _ int) error { _, err := conn.Skip(); return err }

// TestTransactionPanics: after a panic in what its caller does meanwhile, a transaction is not open, so that the next one cannot take
// replies for its own that nobody has read.
func TestTransactionPanics(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	key := tier.StateKey(setUp(t, s).scope(), "x")
	tx := tiertest.Dial(t, s).Transaction()
	require.NoError(t, tx.Hand(t.Context(), key, hset(key)))
	require.Panics(t, func() { _, _ = tx.Run(t.Context(), func() { panic("of a callback") }, skip) })
	ran, err := tx.Run(t.Context(), func() {}, skip)
	require.NoError(t, err)
	require.False(t, ran)
}

// TestTransactionHanded: what was handed over runs when it is to, and not before; what was started and has nobody to say what came of it is unknown.
func TestTransactionHanded(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	c, err := tier.Dial(t.Context(), s.URL(), tier.Options{})
	require.NoError(t, err)
	key := tier.StateKey(f.scope(), "x")
	tx := c.Transaction()
	hand := func() {
		require.NoError(t, tx.Hand(t.Context(), key, func(conn *tier.Conn) int {
			conn.Send(tier.AppendCommand(nil, "INCR", key))
			return 1
		}))
	}
	f.text("SET", key, "0")
	var got int64
	exec := func() (ran bool, err error) {
		return tx.Run(t.Context(), func() {}, func(conn *tier.Conn, _ int) (err error) {
			got, err = conn.Skip()
			return err
		})
	}
	for n := range int64(4) {
		hand()
		require.Equal(t, strconv.FormatInt(n, 10), f.text("GET", key))
		if n%2 == 1 {
			tx.Start(t.Context())
			tiertest.Eventually(t, 10*time.Second, func() (bool, string) { return f.text("GET", key) == strconv.FormatInt(n+1, 10), "it was not started" })
		}
		ran, err := exec()
		require.NoError(t, err)
		require.True(t, ran)
		require.Equal(t, n+1, got)
	}
	hand()
	tx.Discard()
	ran, err := exec()
	require.NoError(t, err)
	require.False(t, ran)
	hand()
	tx.Start(t.Context())
	c.Close()
	ran, err = exec()
	require.False(t, ran)
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
}

package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// forward runs a forwarder until the test ends.
func forward(t *testing.T, client *tier.Client, outbox string) {
	t.Helper()
	f, err := consumer.NewForwarder(client, consumer.ForwarderConfig{Outbox: outbox, Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
}

// post puts messages for a target into an outbox, as an output would.
func post(t *testing.T, client *tier.Client, outbox, target string, ms ...codec.Message) {
	t.Helper()
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: outbox})
	require.NoError(t, err)
	for _, m := range ms {
		out, err := consumer.ToOutbox(outbox, target, m)
		require.NoError(t, err)
		_, err = w.Append(t.Context(), out.Message)
		require.NoError(t, err)
	}
}

// arrives waits until a stream holds messages of these keys.
func arrives(t *testing.T, client *tier.Client, address string, want ...string) {
	t.Helper()
	tiertest.Eventually(t, patience, func() (bool, string) {
		last, err := readerOf(t, client, address).Last(t.Context(), 100)
		var keys []string
		for i := range last {
			keys = append(keys, last[i].Key)
		}
		return err == nil && fmt.Sprint(keys) == fmt.Sprint(want), fmt.Sprint(keys, " ", err)
	})
}

// TestOutboxesOfLikeNames: two outboxes are two producers, however their names are put together.
func TestOutboxesOfLikeNames(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		client, scope := tiertest.Dial(t, server), tiertest.AuditedScope(t, server)
		target := tiertest.AuditedScope(t, server) + "/orders"
		early, late := scope+"/eu.outbox", scope+".eu/outbox"
		post(t, client, early, target, codec.Message{Key: "early"})
		post(t, client, late, target, codec.Message{Key: "late"})
		forward(t, client, late)
		arrives(t, client, target, "late")
		forward(t, client, early)
		arrives(t, client, target, "late", "early")
	})
}

// TestOutboxPoison: a message that its target cannot take is given up, and does not hold up those behind it.
func TestOutboxPoison(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		client := tiertest.Dial(t, server)
		outbox, target := tiertest.AuditedScope(t, server)+"/outbox", tiertest.AuditedScope(t, server)+"/orders"
		w, err := stream.NewWriter(client, stream.WriterConfig{Address: target, Keyed: true})
		require.NoError(t, err)
		_, err = w.Declare(t.Context())
		require.NoError(t, err)
		post(t, client, outbox, target, codec.Message{Key: "a"}, codec.Message{}, codec.Message{Key: "b"})
		forward(t, client, outbox)
		arrives(t, client, target, "a", "b")
	})
}

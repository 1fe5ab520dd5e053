package consumer_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestOutbox: messages for other scopes arrive in order and once each, while handlers fail, forwarders come and go,
// and replies of their appends are lost.
func TestOutbox(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n, targets = 600, 3
		s := newStage(t, server)
		s.append(n, 1)
		outbox := s.addr.Scope + "/outbox"
		var to []string
		for range targets {
			to = append(to, tiertest.AuditedScope(t, server)+"/orders")
		}
		s.run(consumer.Exclusive(s.cursor()), func(_ context.Context, d *consumer.Delivery) error {
			i, err := strconv.Atoi(d.Key)
			require.NoError(t, err)
			out, err := consumer.ToOutbox(outbox, to[i%targets], d.Message)
			require.NoError(t, err)
			d.Emit(out)
			if rand.IntN(20) == 0 {
				return consumer.RetryAfter(errMailbox, time.Millisecond)
			}
			return nil
		}, consumer.Config{Order: consumer.Strict})
		arrived := func() (keys [targets][]string) {
			for i, address := range to {
				r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: address})
				require.NoError(t, err)
				for record, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
					if err != nil {
						require.ErrorIs(t, err, stream.ErrNoStream) // not yet
						break
					}
					keys[i] = append(keys[i], record.Key)
				}
			}
			return keys
		}
		total := func() (sum int) {
			for _, keys := range arrived() {
				sum += len(keys)
			}
			return sum
		}
		for round := 0; total() < n; round++ {
			require.Less(t, round, 100)
			client := s.client
			if !server.Kind.Cluster() {
				proxy := tiertest.NewProxy(t, server)
				client = tiertest.Dial(t, proxy)
				proxy.DropReplies(2, func(cmd []string) bool { return cmd[0] == "EVALSHA" && len(cmd) > 10 && rand.IntN(3) == 0 })
			}
			f, err := consumer.NewForwarder(client, consumer.ForwarderConfig{Outbox: outbox, Lease: stream.MinLease})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(500+rand.IntN(500))*time.Millisecond)
			if err := f.Run(ctx); err != nil {
				require.True(t, tier.OutcomeUnknown(err) || ctx.Err() != nil, "%v", err)
			}
			cancel()
		}
		for i, keys := range arrived() {
			var want []string
			for k := i; k < n; k += targets {
				want = append(want, strconv.Itoa(k))
			}
			require.Equal(t, want, keys)
		}
	})
}

// TestOutboxOfAnother: what did not come by ToOutbox is given up, and does not hold up the rest.
func TestOutboxOfAnother(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(3, 1) // orders, which are no outbox
		target := tiertest.AuditedScope(t, server) + "/orders"
		out, err := consumer.ToOutbox(s.addr.String(), target, codec.Message{Key: "k"})
		require.NoError(t, err)
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
		require.NoError(t, err)
		_, err = w.Append(t.Context(), out.Message)
		require.NoError(t, err)
		f, err := consumer.NewForwarder(s.client, consumer.ForwarderConfig{Outbox: s.addr.String(), Name: groupName})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		defer func() { cancel(); require.NoError(t, <-done) }()
		tiertest.Eventually(t, patience, func() (bool, string) {
			last, err := readerOf(t, s.client, target).Last(t.Context(), 1)
			return err == nil && len(last) == 1 && len(s.letters()) == 3, "not forwarded, or not given up"
		})
		_, err = consumer.ToOutbox(s.addr.String(), "no address", codec.Message{})
		require.ErrorIs(t, err, tier.ErrName)
	})
}

func readerOf(t *testing.T, client *tier.Client, address string) *stream.Reader {
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: address})
	require.NoError(t, err)
	return r
}

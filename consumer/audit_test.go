package consumer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A group that parks, takes up, gives up, redrives and settles as fast as it can is sound whenever it is audited.
func TestABusyGroupIsSound(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, kind))
			s.append(300, 1)
			s.append(300, 7)
			handler := func(context.Context, *consumer.Delivery) error {
				switch rand.IntN(6) {
				case 0:
					return consumer.Permanent(errors.New("no"))
				case 1:
					return consumer.Snooze(time.Millisecond)
				case 2, 3:
					return consumer.RetryAfter(errors.New("later"), time.Duration(rand.IntN(10))*time.Millisecond)
				}
				return nil
			}
			for range 2 {
				s.run(s.source(), handler, consumer.Config{Concurrency: 4, MaxDeliveries: 4})
			}
			for audits, begun := 0, time.Now(); audits < 60 && time.Since(begun) < patience; audits++ {
				require.NoError(t, stream.Check(t.Context(), s.client, s.addr.Scope))
				var ids []codec.EntryID
				for letter, err := range stream.DeadLetters(t.Context(), s.client, s.addr.String(), groupName) {
					require.NoError(t, err)
					ids = append(ids, letter.ID)
				}
				_, err := stream.Redrive(t.Context(), s.client, s.addr.String(), groupName, ids)
				require.NoError(t, err)
			}
		})
	}
}

package consumer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

type noSource struct{}

func (noSource) Join(context.Context, string) (consumer.Member, error) { panic("New does no I/O") }

func nothing(context.Context, *consumer.Delivery) error { return nil }

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  consumer.Config
		want string // in the error; empty: fine
	}{
		{"zero", consumer.Config{}, ""},
		{"everything set", consumer.Config{Name: "mail-1", Concurrency: 3, MaxInFlight: 3, DrainTimeout: time.Minute}, ""},
		{"strict", consumer.Config{Order: consumer.Strict}, ""},
		{"by key", consumer.Config{Order: consumer.ByKey, Concurrency: 3}, ""},
		{"many workers", consumer.Config{Concurrency: 5000}, ""},
		{"bad name", consumer.Config{Name: "a b"}, "' ' is not one of"},
		{"long name", consumer.Config{Name: strings.Repeat("n", 101)}, "101"},
		{"concurrency below one", consumer.Config{Concurrency: -1}, "Concurrency is -1"},
		{"concurrency without end", consumer.Config{Concurrency: 1 << 20}, "Concurrency"},
		{"no such order", consumer.Config{Order: 9}, "Order is Order(9), want None, ByKey or Strict"},
		{"strict, in parallel", consumer.Config{Order: consumer.Strict, Concurrency: 2}, "Concurrency is 2 with Order Strict, want 1"},
		{"in flight below concurrency", consumer.Config{Concurrency: 8, MaxInFlight: 7}, "MaxInFlight is 7"},
		{"in flight below zero", consumer.Config{MaxInFlight: -5}, "MaxInFlight is -5"},
		{"in flight without end", consumer.Config{MaxInFlight: 1 << 20}, "at most 65536"},
		{"bytes in flight below zero", consumer.Config{MaxInFlightBytes: -1}, "MaxInFlightBytes is -1"},
		{"drain below zero", consumer.Config{DrainTimeout: -1}, "DrainTimeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := consumer.New(noSource{}, nothing, tc.cfg)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, consumer.ErrConfig)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := consumer.New(noSource{}, consumer.Handler(nothing), consumer.Config{Name: "a b"})
	require.ErrorIs(t, err, tier.ErrName)
	_, err = consumer.New(consumer.Group(nil), nothing, consumer.Config{})
	require.ErrorIs(t, err, consumer.ErrConfig)
	_, err = consumer.New(nil, nothing, consumer.Config{})
	require.ErrorIs(t, err, consumer.ErrConfig)
	_, err = consumer.New(noSource{}, nil, consumer.Config{})
	require.ErrorIs(t, err, consumer.ErrConfig)
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	c, err := consumer.New(s.source(), nothing, consumer.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Run(ctx), context.Canceled, "it could not join")
	require.ErrorIs(t, c.Run(t.Context()), consumer.ErrRan)
}

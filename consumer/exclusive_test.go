package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func (s *stage) cursor() *stream.Cursor {
	c, err := stream.NewCursor(s.client, stream.CursorConfig{Address: s.addr.String(), Name: groupName, Start: stream.Head(), Lease: s.lease})
	require.NoError(s.t, err)
	return c
}

// state reads a state that is a hash.
func (s *stage) state(name string) map[string]string {
	key := tier.StateKey(s.addr.Scope, name)
	m, err := s.client.Do(context.Background(), key, s.client.B().Hgetall().Key(key).Build())
	require.NoError(s.t, err)
	state, err := m.AsStrMap()
	require.NoError(s.t, err)
	return state
}

// TestOutputsExactlyOnce: whatever handlers do, and whoever owns, each message counts once.
func TestOutputsExactlyOnce(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, mode := range []string{"group", "cursor"} {
			for _, pack := range []int{1, 20} {
				t.Run(fmt.Sprintf("%s-%d", mode, pack), func(t *testing.T) {
					t.Parallel()
					const n = 2000
					s := newStage(t, server)
					s.append(n, pack)
					source := s.source
					if mode == "cursor" {
						source = func() consumer.Source { return consumer.Exclusive(s.cursor()) }
					}
					handler := func(_ context.Context, d *consumer.Delivery) error {
						d.Emit(
							tier.HashIncrement("counts", d.Key, 1), tier.HashIncrement("total", "n", 1),
							tier.AppendTo(s.addr.Scope+"/out", codec.Message{Key: d.Key, Data: []byte(d.Key)}),
						)
						if rand.IntN(10) == 0 {
							return consumer.RetryAfter(errMailbox, time.Millisecond)
						}
						return nil
					}
					stop := make(chan struct{})
					var members sync.WaitGroup
					for range 3 {
						members.Go(func() {
							for running := true; running; {
								ctx, cancel := context.WithCancel(context.Background())
								c, err := consumer.New(source(), handler, consumer.Config{Concurrency: 4, MaxDeliveries: -1})
								require.NoError(t, err)
								done := make(chan error, 1)
								go func() { done <- c.Run(ctx) }()
								<-c.Ready()
								select {
								case <-stop:
									running = false
								case <-time.After(time.Duration(rand.IntN(300)) * time.Millisecond):
								}
								cancel()
								require.NoError(t, <-done)
							}
						})
					}
					tiertest.Eventually(t, patience, func() (bool, string) {
						total := s.state("total")["n"]
						return total == strconv.Itoa(n), total
					})
					close(stop)
					members.Wait()
					counts := s.state("counts")
					require.Len(t, counts, n)
					for key, times := range counts {
						require.Equal(t, "1", times, key)
					}
					out, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.Scope + "/out"})
					require.NoError(t, err)
					seen := map[string]bool{}
					for r, err := range out.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
						require.NoError(t, err)
						require.False(t, seen[r.Key], r.Key)
						seen[r.Key] = true
					}
					require.Len(t, seen, n)
				})
			}
		}
	})
}

package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
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

// TestCompetitorsKeepOrder (B93): of consumers that compete for one cursor, whose handlers take as long as they like and
// which come and go, each key's messages are handled in order, and one at a time.
func TestCompetitorsKeepOrder(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const keys, each = 20, 30
		s := newStage(t, server)
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
		require.NoError(t, err)
		var batch []codec.Message
		for i := range keys * each {
			batch = append(batch, codec.Message{Key: strconv.Itoa(i % keys), Data: []byte(strconv.Itoa(i / keys))})
		}
		_, err = w.AppendBatch(t.Context(), batch)
		require.NoError(t, err)

		var mu sync.Mutex
		handled, busy, failed := map[string]int{}, map[string]bool{}, map[string]bool{}
		handler := func(_ context.Context, d *consumer.Delivery) error {
			n, err := strconv.Atoi(string(d.Data))
			require.NoError(t, err)
			mu.Lock()
			if busy[d.Key] || n > handled[d.Key] {
				t.Errorf("message %d of key %s begins after %d, others at work: %t", n, d.Key, handled[d.Key], busy[d.Key])
			}
			busy[d.Key] = true
			mu.Unlock()
			<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
			mu.Lock()
			defer mu.Unlock()
			busy[d.Key] = false
			if text := d.Key + "/" + string(d.Data); n%10 == 3 && !failed[text] {
				failed[text] = true
				return consumer.RetryAfter(errMailbox, time.Millisecond)
			}
			handled[d.Key] = max(handled[d.Key], n+1)
			return nil
		}
		done := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, next := range handled {
				n += next
			}
			return n
		}
		var running []*running
		for range 3 {
			running = append(running, s.run(consumer.Exclusive(s.cursor()), handler, consumer.Config{Order: consumer.ByKey}))
		}
		for i := 0; done() < keys*each; i++ {
			require.Less(t, i, 200)
			<-time.After(50 * time.Millisecond)
			running[i%3].stop()
			require.NoError(t, running[i%3].wait(patience))
			running[i%3] = s.run(consumer.Exclusive(s.cursor()), handler, consumer.Config{Order: consumer.ByKey})
		}
	})
}

// TestStandByTakesOver: what the owner has parked keeps nobody from taking over when it is silent, in whichever order.
func TestStandByTakesOver(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, order := range []consumer.Order{consumer.None, consumer.ByKey, consumer.Strict} {
			t.Run(order.String(), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				s.lease = shortLease
				s.append(1, 1)
				later := func(context.Context, *consumer.Delivery) error { return consumer.RetryAfter(errMailbox, time.Hour) }
				first := newPuppet(consumer.Exclusive(s.cursor()))
				s.run(first, later, consumer.Config{Name: "first", Order: order})
				tiertest.Eventually(t, patience, func() (bool, string) { return s.parked() > 0, "nothing is parked" })
				s.run(consumer.Exclusive(s.cursor()), later, consumer.Config{Name: "second", Order: order})
				first.freeze()
				defer first.thaw()
				tiertest.Eventually(t, patience, func() (bool, string) {
					list, err := stream.Cursors(t.Context(), s.client, s.addr.String())
					require.NoError(t, err)
					return strings.HasPrefix(list[0].Owner, "second"), list[0].Owner
				})
			})
		}
	})
}

// TestOrderOfPacksAcrossOwners (B93): a message that waits behind a failed one, whose pack is not through when its owner is
// lost, is not handled before that by the next one.
func TestOrderOfPacksAcrossOwners(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.lease = shortLease
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Pack: 2})
		require.NoError(t, err)
		_, err = w.AppendBatch(t.Context(), []codec.Message{
			{Key: "k", Data: []byte("k/0")}, {Key: "stuck", Data: []byte("stuck")}, {Key: "k", Data: []byte("k/1")}, {Key: "fine", Data: []byte("fine")},
		})
		require.NoError(t, err)
		first := newPuppet(consumer.Exclusive(s.cursor()))
		s.run(first, func(ctx context.Context, d *consumer.Delivery) error {
			switch d.Key {
			case "k":
				return consumer.RetryAfter(errMailbox, time.Millisecond)
			case "stuck":
				<-ctx.Done()
			}
			return nil
		}, consumer.Config{Order: consumer.ByKey, Concurrency: 4})
		tiertest.Eventually(t, patience, func() (bool, string) { return s.parked() > 0, "nothing is parked" })
		first.freeze()
		defer first.thaw()
		j := newJournal()
		s.run(consumer.Exclusive(s.cursor()), j.handler(byKey, func(*consumer.Delivery, int) error { return nil }), consumer.Config{Order: consumer.ByKey})
		j.reach(t, "k", 2)
		require.Equal(t, []string{"k/0", "k/1"}, j.seen("k"))
	})
}

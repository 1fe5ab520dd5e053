package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// appendKeyed appends the rounds of each key in turn: of key k first k/0, then k/1 and so on, pack of them an entry.
func (s *stage) appendKeyed(keys []string, rounds, pack int) {
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD", Pack: pack})
	require.NoError(s.t, err)
	var batch []codec.Message
	for n := range rounds {
		for _, key := range keys {
			batch = append(batch, codec.Message{Key: key, Data: fmt.Appendf(nil, "%s/%d", key, n)})
		}
	}
	_, err = w.AppendBatch(s.t.Context(), batch)
	require.NoError(s.t, err)
}

// journal is what was handled of each key, in order, and whether one key ever had two handlers at work.
type journal struct {
	mu      sync.Mutex
	of      map[string][]string
	running map[string]int
	doubled []string
}

func newJournal() *journal { return &journal{of: map[string][]string{}, running: map[string]int{}} }

// handler notes what it is given, as lane, and how often it was given the same before.
func (j *journal) handler(lane func(d *consumer.Delivery) string, do func(d *consumer.Delivery, before int) error) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) error {
		key, text := lane(d), string(d.Data)
		j.mu.Lock()
		before := 0
		for _, was := range j.of[key] {
			if was == text {
				before++
			}
		}
		j.of[key] = append(j.of[key], text)
		if j.running[key]++; j.running[key] > 1 {
			j.doubled = append(j.doubled, text)
		}
		j.mu.Unlock()
		err := do(d, before)
		j.mu.Lock()
		j.running[key]--
		j.mu.Unlock()
		return err
	}
}

func (j *journal) seen(lane string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.of[lane])
}

// reach waits until so much of a lane was handled.
func (j *journal) reach(t testing.TB, lane string, n int) {
	t.Helper()
	tiertest.Eventually(t, patience, func() (bool, string) {
		got := j.seen(lane)
		return len(got) >= n, fmt.Sprintf("%s: %v", lane, got)
	})
}

func (j *journal) alone(t testing.TB) {
	j.mu.Lock()
	defer j.mu.Unlock()
	require.Empty(t, j.doubled, "one lane had two handlers at work")
}

func byKey(d *consumer.Delivery) string { return d.Key }

func oneLane(*consumer.Delivery) string { return "all" }

// ordered is 0 to n-1 of a key, the first given times times.
func ordered(key string, n, times int) (want []string) {
	for i := range n {
		for k := 0; k == 0 || i == 0 && k < times; k++ {
			want = append(want, fmt.Sprintf("%s/%d", key, i))
		}
	}
	return want
}

// B94, B96: with more keys than workers and room, the messages of each key are handled
// in order and alone, those of one that fails wait for it, and those of the others do not.
func TestOrderByKey(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, pack := range []int{1, 7} {
			t.Run(fmt.Sprintf("pack=%d", pack), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				keys := []string{"bad"}
				for i := range 30 {
					keys = append(keys, fmt.Sprintf("k%d", i))
				}
				const rounds = 5
				s.appendKeyed(keys, rounds, pack)
				j := newJournal()
				open := make(chan struct{}) // closed when the others are through
				h := j.handler(byKey, func(d *consumer.Delivery, before int) error {
					if string(d.Data) == "bad/0" && before < 2 {
						return errors.New("not yet")
					}
					return nil
				})
				s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
					if d.Key == "bad" { // held up until all others are through
						select {
						case <-open:
						default:
							if string(d.Data) != "bad/0" {
								return consumer.Permanent(errors.New("overtook"))
							}
							return consumer.Snooze(20 * time.Millisecond)
						}
					}
					return h(ctx, d)
				}, consumer.Config{Order: consumer.ByKey, Concurrency: 4, MaxInFlight: 16, Backoff: 10 * time.Millisecond})
				for _, key := range keys[1:] {
					j.reach(t, key, rounds)
				}
				require.Empty(t, j.seen("bad"))
				close(open)
				j.reach(t, "bad", rounds+2)
				s.settled(patience)
				for _, key := range keys[1:] {
					require.Equal(t, ordered(key, rounds, 1), j.seen(key))
				}
				require.Equal(t, ordered("bad", rounds, 3), j.seen("bad"), "those behind it wait for the one that fails, and spend no attempt")
				j.alone(t)
				require.Empty(t, s.letters())
			})
		}
	})
}

// Strict, everything waits for the one that fails; nothing is lost when more is parked than there is room for.
func TestOrderStrict(t *testing.T) {
	for _, pack := range []int{1, 5} {
		t.Run(fmt.Sprintf("pack=%d", pack), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
			s.appendKeyed([]string{"k"}, 60, pack)
			j := newJournal()
			s.run(s.source(), j.handler(oneLane, func(d *consumer.Delivery, before int) error {
				if string(d.Data) == "k/0" && before < 2 {
					return errors.New("not yet")
				}
				return nil
			}), consumer.Config{Order: consumer.Strict, MaxInFlight: 8, Backoff: 10 * time.Millisecond})
			j.reach(t, "all", 62)
			s.settled(patience)
			require.Equal(t, ordered("k", 60, 3), j.seen("all"))
			j.alone(t)
		})
	}
}

// What was parked before a consumer began holds up those of its key that are new; also what another program has trimmed
// meanwhile does not hold them up for ever.
func TestOrderOfWhatIsParked(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.appendKeyed([]string{"a", "b", "gone"}, 1, 1)
		var parked sync.WaitGroup
		parked.Add(3)
		first := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			defer parked.Done()
			return consumer.RetryAfter(errors.New("later"), map[string]time.Duration{"a": 2 * time.Second, "b": 0, "gone": 3 * time.Second}[d.Key])
		}, consumer.Config{Order: consumer.ByKey, Concurrency: 1})
		parked.Wait()
		first.stop()
		require.NoError(t, first.wait(patience))

		s.appendKeyed([]string{"a", "b", "gone"}, 3, 1)
		entries := s.do("XRANGE", "-", "+").([]any)
		s.do("XDEL", entries[2].([]any)[0].(string))
		j := newJournal()
		s.run(s.source(), j.handler(byKey, func(*consumer.Delivery, int) error { return nil }), consumer.Config{Order: consumer.ByKey})
		j.reach(t, "a", 4)
		j.reach(t, "gone", 3)
		s.settled(patience)
		require.Equal(t, ordered("a", 3, 2), j.seen("a"), "the first a/0 was parked")
		require.Equal(t, ordered("b", 3, 2), j.seen("b"))
		require.Equal(t, ordered("gone", 3, 1), j.seen("gone"))
		j.alone(t)
	})
}

// A read whose reply was lost gave entries to this consumer that it does not know: nothing newer is read before they are
// here, so that none of them is overtaken.
func TestOrderAfterLostReply(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.appendKeyed([]string{"k"}, 40, 1)
	p := newPuppet(s.source())
	lose := 3
	p.after = func(call string, err error) error {
		if call == "read" && err == nil && lose > 0 {
			lose--
			return &tier.Error{Op: "read", Class: tier.ErrNetwork, Err: errors.New("reply lost")}
		}
		return err
	}
	j := newJournal()
	s.run(p, j.handler(byKey, func(*consumer.Delivery, int) error { return nil }), consumer.Config{Order: consumer.ByKey})
	j.reach(t, "k", 40)
	s.settled(patience)
	require.Equal(t, ordered("k", 40, 1), j.seen("k"))
}

func TestParseOrder(t *testing.T) {
	for _, o := range []consumer.Order{consumer.None, consumer.ByKey, consumer.Strict} {
		got, err := consumer.ParseOrder(o.String())
		require.NoError(t, err)
		require.Equal(t, o, got)
		require.NoError(t, got.UnmarshalText([]byte("strict")))
		require.Equal(t, consumer.Strict, got)
	}
	_, err := consumer.ParseOrder("keys")
	require.ErrorContains(t, err, "want none, key or strict")
	require.Equal(t, "Order(9)", consumer.Order(9).String())
}

// deaf is a source whose members cannot tell what is parked.
type deaf struct{ consumer.Source }

func (d deaf) Join(ctx context.Context, prefix string) (consumer.Member, error) {
	m, err := d.Source.Join(ctx, prefix)
	return struct{ consumer.Member }{m}, err
}

func TestOrderNeedsToKnowWhatIsParked(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	h := func(context.Context, *consumer.Delivery) error { return nil }
	c, err := consumer.New(deaf{s.source()}, h, consumer.Config{Order: consumer.ByKey})
	require.NoError(t, err)
	require.ErrorIs(t, c.Run(t.Context()), consumer.ErrConfig)
	require.Empty(t, s.holders(), "and leaves nobody behind")
}

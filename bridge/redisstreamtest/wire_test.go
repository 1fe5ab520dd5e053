package redisstreamtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// No goleak here: the other client leaves goroutines behind.
func TestMain(m *testing.M) {
	if words := os.Getenv(pourEnv); words != "" {
		fmt.Fprintln(os.Stderr, pour(strings.Fields(words)))
		os.Exit(1)
	}
	os.Exit(tiertest.Run(m))
}

const patience = 30 * time.Second

var wire = bridge.Topics{Wire: bridge.RedisStream}

// fixture is a server with a client of each backend.
type fixture struct {
	server *tiertest.Server
	client *tier.Client
}

func each(t *testing.T, f func(t *testing.T, f fixture)) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) { f(t, fixture{s, tiertest.Dial(t, s)}) })
}

// redis is a client of the other backend, which closes it.
func (f fixture) redis(t *testing.T) redis.UniversalClient {
	t.Helper()
	if f.server.Kind.Cluster() {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{f.server.Addr()}})
	}
	return redis.NewClient(&redis.Options{Network: f.server.Network(), Addr: f.server.Addr()})
}

func (f fixture) theirPublisher(t *testing.T) message.Publisher {
	t.Helper()
	p, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: f.redis(t)}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func (f fixture) theirSubscriber(t *testing.T, group string) *redisstream.Subscriber {
	t.Helper()
	s, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{Client: f.redis(t), ConsumerGroup: group, DisableIndefiniteInitialBlock: true, FanOutOldestId: "0"}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func (f fixture) ourPublisher(t *testing.T) message.Publisher {
	t.Helper()
	p, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: wire})
	require.NoError(t, err)
	return p
}

func (f fixture) ourSubscriber(t *testing.T, group string) *bridge.Subscriber {
	t.Helper()
	s, err := bridge.NewSubscriber(f.client, bridge.SubscriberConfig{
		Topics: wire, Group: group, MaxInFlight: 16, Start: stream.Head(),
		Consumer: consumer.Config{Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, DrainTimeout: time.Second},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// odd is a text of any bytes.
func odd(r *rand.Rand, most int) string {
	b := make([]byte, r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// messages have odd bytes everywhere, and often nothing.
func messages(n int) map[string]*message.Message {
	r := rand.New(rand.NewPCG(7, 7))
	all := make(map[string]*message.Message, n)
	for i := range n {
		m := message.NewMessage(strconv.Itoa(i)+odd(r, 8), []byte(odd(r, 64)))
		for range r.IntN(4) {
			m.Metadata[odd(r, 16)] = odd(r, 300)
		}
		all[m.UUID] = m
	}
	return all
}

// count is how many messages go each way: ten thousand, where the environment says so.
func count(t *testing.T) int {
	text := os.Getenv("BRIDGE_MESSAGES")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func publishAll(t *testing.T, p message.Publisher, topic string, all map[string]*message.Message) {
	t.Helper()
	var wg sync.WaitGroup
	work := make(chan *message.Message)
	for range 16 {
		wg.Go(func() {
			for m := range work {
				if err := p.Publish(topic, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, m := range all {
		work <- m
	}
	close(work)
	wg.Wait()
}

// compare receives all messages, each once, and finds them as they were.
func compare(t *testing.T, all map[string]*message.Message, outs ...<-chan *message.Message) (by []int) {
	t.Helper()
	type received struct {
		from int
		m    *message.Message
	}
	in := make(chan received)
	ctx, done := context.WithCancel(t.Context())
	defer done()
	for i, out := range outs {
		go func() {
			for {
				select {
				case m := <-out:
					select {
					case in <- received{i, m}:
					case <-ctx.Done():
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	by = make([]int, len(outs))
	seen := map[string]bool{}
	for len(seen) < len(all) {
		select {
		case r := <-in:
			want := all[r.m.UUID]
			require.NotNil(t, want, "%q", r.m.UUID)
			require.False(t, seen[r.m.UUID], "twice: %q", r.m.UUID)
			seen[r.m.UUID] = true
			by[r.from]++
			require.Equal(t, string(want.Payload), string(r.m.Payload))
			for key, value := range want.Metadata {
				require.Equal(t, value, r.m.Metadata[key])
			}
			for _, key := range []string{bridge.MetaID, bridge.MetaAttempt, bridge.MetaTime, bridge.MetaLag} {
				delete(r.m.Metadata, key)
			}
			require.Len(t, r.m.Metadata, len(want.Metadata))
			require.True(t, r.m.Ack())
		case <-time.After(patience):
			require.FailNow(t, "messages are missing", "%d of %d came", len(seen), len(all))
		}
	}
	return by
}

// TestEachReadsTheOther: what either backend publishes the other receives, to the byte, with a group and without.
func TestEachReadsTheOther(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		all := messages(count(t))
		for _, way := range []struct {
			name string
			from message.Publisher
			to   func(group string) message.Subscriber
		}{
			{"theirs to ours", f.theirPublisher(t), func(g string) message.Subscriber { return f.ourSubscriber(t, g) }},
			{"ours to theirs", f.ourPublisher(t), func(g string) message.Subscriber { return f.theirSubscriber(t, g) }},
			{"ours to ours", f.ourPublisher(t), func(g string) message.Subscriber { return f.ourSubscriber(t, g) }},
		} {
			t.Run(way.name, func(t *testing.T) {
				topic := "odd topic: {" + tiertest.Scope(t) + "}/" + way.name
				publishAll(t, way.from, topic, all)
				for _, group := range []string{"g", ""} {
					out, err := way.to(group).Subscribe(t.Context(), topic)
					require.NoError(t, err)
					compare(t, all, out)
				}
			})
		}
	})
}

// TestOneGroup: both backends in one group share a topic that both publish to: each message comes once, and both get some.
func TestOneGroup(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		topic := "shared." + tiertest.Scope(t)
		all := messages(count(t))
		theirs, err := f.theirSubscriber(t, "g").Subscribe(t.Context(), topic)
		require.NoError(t, err)
		ours, err := f.ourSubscriber(t, "g").Subscribe(t.Context(), topic)
		require.NoError(t, err)
		half := map[string]*message.Message{}
		rest := map[string]*message.Message{}
		for id, m := range all {
			if len(half) < len(all)/2 {
				half[id] = m
			} else {
				rest[id] = m
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { publishAll(t, f.theirPublisher(t), topic, half) })
		wg.Go(func() { publishAll(t, f.ourPublisher(t), topic, rest) })
		by := compare(t, all, theirs, ours)
		wg.Wait()
		require.Positive(t, by[0], fmt.Sprint(by))
		require.Positive(t, by[1], fmt.Sprint(by))
		tiertest.Eventually(t, patience, func() (bool, string) {
			groups, err := stream.Groups(t.Context(), f.client, tier.KeyAddress(topic))
			require.NoError(t, err)
			require.Len(t, groups, 1)
			return groups[0].Pending+groups[0].Parked == 0, fmt.Sprintf("%+v", groups[0])
		})
	})
}

package redisstreamtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The test binary, started again with this in its environment, pours a topic into a stream.
const pourEnv = "BRIDGE_TEST_POUR"

// pourFrom makes the subscriber, and says by what its messages are known.
var pourFrom = map[string]func(client *tier.Client, address string, cfg *bridge.SourceConfig) (message.Subscriber, error){
	// a group of the other backend: what a dead process had comes after what others have acked
	"window": func(_ *tier.Client, address string, cfg *bridge.SourceConfig) (message.Subscriber, error) {
		cfg.Window = time.Hour
		return redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client: redis.NewClient(&redis.Options{Addr: address}), ConsumerGroup: "pour", DisableIndefiniteInitialBlock: true,
			MaxIdleTime: 100 * time.Millisecond, ClaimInterval: 20 * time.Millisecond, BlockTime: 10 * time.Millisecond,
		}, nil)
	},
	// the topic from its beginning, each time
	"position": func(client *tier.Client, _ string, cfg *bridge.SourceConfig) (message.Subscriber, error) {
		cfg.Name, cfg.Position = "old", func(m *message.Message) (string, uint64, error) {
			id, err := codec.ParseEntryID(m.Metadata[bridge.MetaID])
			return "", (id.Ms-codec.Epoch)<<12 | id.Seq + 1, err
		}
		return bridge.NewSubscriber(client, bridge.SubscriberConfig{Topics: wire, Start: stream.Head()})
	},
}

// pour is the process: how, the server's URL and address, topic, stream, after how many messages it dies.
func pour(words []string) error {
	ctx := context.Background()
	client, err := tier.Dial(ctx, words[1], tier.Options{})
	if err != nil {
		return err
	}
	cfg := bridge.SourceConfig{Topic: words[3], Address: words[4]}
	from, err := pourFrom[words[0]](client, words[2], &cfg)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(words[5])
	if err != nil {
		return err
	}
	s, err := bridge.NewSource(client, mortal{from, n}, cfg)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// mortal passes messages on, and kills the process with one of them: before its ack arrives at the source, or in the middle of its append.
type mortal struct {
	message.Subscriber
	left int // below 0: it lives
}

func (s mortal) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := s.Subscriber.Subscribe(ctx, topic)
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for m := range in {
			if s.left--; s.left == 0 && rand.IntN(2) == 0 {
				time.AfterFunc(rand.N(2*time.Millisecond), die)
			}
			passed := m.Copy()
			out <- passed
			<-passed.Acked()
			if s.left == 0 {
				die()
			}
			m.Ack()
		}
	}()
	return out, err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestSourceKilled (B74): a topic of the other backend is poured into a stream by processes that are killed, most of them between the append
// and the ack. Each message stands in the stream once: by its UUID, and by its position, then in order.
func TestSourceKilled(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for how := range pourFrom {
			t.Run(fmt.Sprint(kind, " ", how), func(t *testing.T) {
				t.Parallel()
				f := fixture{server: tiertest.Private(t, kind)}
				f.client = tiertest.Dial(t, f.server)
				topic, address := "old", tiertest.AuditedScope(t, f.server)+"/new"
				const total = 100
				p := f.theirPublisher(t)
				for i := range total {
					require.NoError(t, p.Publish(topic, message.NewMessage(strconv.Itoa(i), []byte(strconv.Itoa(i)))))
				}
				start := func(n int) *exec.Cmd {
					cmd := exec.Command(os.Args[0])
					cmd.Env = append(os.Environ(), pourEnv+"="+strings.Join([]string{how, f.server.URL(), f.server.Addr(), topic, address, strconv.Itoa(n)}, " "))
					cmd.Stderr = os.Stderr
					require.NoError(t, cmd.Start())
					return cmd
				}
				deaths := 0
				for ; len(f.poured(t, address)) < total*3/4; deaths++ {
					n := 1 + rand.IntN(20)
					if how == "position" { // which is given all from the beginning
						n += len(f.poured(t, address))
					}
					_ = start(n).Wait()
				}
				require.Greater(t, deaths, 3)
				last := start(-1)
				tiertest.Eventually(t, patience, func() (bool, string) {
					n := len(f.poured(t, address))
					return n >= total, fmt.Sprint(n, " have come")
				})
				if how == "window" {
					tiertest.Eventually(t, patience, func() (bool, string) {
						groups, err := stream.Groups(t.Context(), f.client, tier.KeyAddress(topic))
						require.NoError(t, err)
						return groups[0].Pending == 0, "something is not acked"
					})
				}
				_ = last.Process.Kill()
				_ = last.Wait()
				all := f.poured(t, address)
				require.Len(t, all, total)
				seen := map[string]bool{}
				for i, m := range all {
					seen[string(m.Data)] = true
					if how == "position" {
						require.Equal(t, strconv.Itoa(i), string(m.Data))
					}
				}
				require.Len(t, seen, total)
			})
		}
	}
}

// poured is what stands in the stream.
func (f fixture) poured(t *testing.T, address string) (all []codec.Record) {
	t.Helper()
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: address})
	require.NoError(t, err)
	for record, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		if err != nil {
			require.ErrorIs(t, err, stream.ErrNoStream)
			return nil
		}
		all = append(all, record)
	}
	return all
}

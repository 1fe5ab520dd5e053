package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The test binary, started again with this in its environment, is the shop.
const shopEnv = "WATERMILL_TEST_SHOP"

func TestMain(m *testing.M) {
	if url := os.Getenv(shopEnv); url != "" {
		fmt.Fprintln(os.Stderr, run(context.Background(), os.Stdout, url, []string{"shop"}))
		os.Exit(1)
	}
	os.Exit(tiertest.Run(m)) // some of Watermill's goroutines outlast their router
}

const patience = 2 * time.Minute

// TestParts: each part prints what it is to show.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		server := tiertest.Private(t, kind)
		for part, want := range map[string]string{
			"forwarder":    "parcels: a hat\n",
			"requeuer":     "letters.sent: dear ann, _watermill_requeuer_retries 1\n",
			"poison":       "numbers.bad: two, reason_poisoned expected integer, topic_poisoned numbers\n",
			"deduplicator": "ann pays\nbob pays\n",
			"cqrs":         "placed o-1 1250\n",
			"metrics":      "handled: 2\n",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			var out strings.Builder
			require.NoError(t, run(ctx, &out, server.URL(), []string{part}), part)
			if part == "deduplicator" { // four at a time
				require.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(out.String(), "\n"))
			} else {
				require.Equal(t, want, out.String(), part)
			}
			cancel()
		}
	}
	require.ErrorContains(t, run(t.Context(), os.Stdout, "", []string{"?"}), "want one of cqrs, deduplicator, forwarder")
}

// payloads are those of a topic, each with how often it stands there.
func payloads(t *testing.T, client *tier.Client, topic string) map[string]int {
	t.Helper()
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "watermill/" + bridge.StreamOf(topic)})
	require.NoError(t, err)
	seen := map[string]int{}
	for m, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		if err != nil {
			require.ErrorIs(t, err, stream.ErrNoStream)
			break
		}
		seen[string(m.Data)]++
	}
	return seen
}

// TestShopKilled (B13, B76): while orders come, each of them twice and some that nobody can handle, the processes of the shop are killed at
// random. Each order has its invoice, each bad one is in the poison queue, and nothing else is; few are handled twice.
func TestShopKilled(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind)
			client := tiertest.Dial(t, server)
			p, err := bridge.NewPublisher(client, bridge.PublisherConfig{Topics: bridge.Topics{Scope: "watermill"}})
			require.NoError(t, err)
			const processes, orders = 3, 200
			var crew [processes]*exec.Cmd
			start := func(i int) {
				crew[i] = exec.Command(os.Args[0])
				crew[i].Env = append(os.Environ(), shopEnv+"="+server.URL())
				crew[i].Stderr = os.Stderr
				require.NoError(t, crew[i].Start())
			}
			kill := func(i int) {
				_ = crew[i].Process.Kill()
				_ = crew[i].Wait()
			}
			for i := range crew {
				start(i)
				defer kill(i)
			}
			names := bridge.MsgpackMarshaler{}
			commands, err := cqrs.NewCommandBusWithConfig(twice{p}, cqrs.CommandBusConfig{
				Marshaler:            names,
				GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return p.CommandName, nil },
			})
			require.NoError(t, err)
			deaths, bad := 0, 0
			for i := range orders {
				c := PlaceOrder{Order: strconv.Itoa(i), Cents: i}
				if i%20 == 7 {
					c.Cents = -i
					bad++
				}
				require.NoError(t, commands.Send(t.Context(), c))
				if i%20 == 0 {
					victim := rand.IntN(processes)
					kill(victim)
					start(victim)
					deaths++
				}
			}
			var invoices, poisoned map[string]int
			tiertest.Eventually(t, patience, func() (bool, string) {
				invoices, poisoned = payloads(t, client, "invoices"), payloads(t, client, "poison")
				if len(invoices)+len(poisoned) < orders && deaths < 20 {
					victim := rand.IntN(processes)
					kill(victim)
					start(victim)
					deaths++
					tier.Pause(t.Context(), rand.N(400*time.Millisecond))
				}
				return len(invoices)+len(poisoned) >= orders, fmt.Sprint(len(invoices), " invoices, ", len(poisoned), " in the poison queue")
			})
			require.Len(t, poisoned, bad)
			require.Len(t, invoices, orders-bad)
			handled := 0
			for order, n := range invoices {
				i, err := strconv.Atoi(order)
				require.NoError(t, err)
				require.NotEqual(t, 7, i%20, "a bad one")
				handled += n
			}
			// one that dies has four commands and four events at most in hand
			require.LessOrEqual(t, handled, orders-bad+8*deaths)
			t.Logf("%d processes killed, %d of %d orders handled again", deaths, handled-(orders-bad), orders-bad)
		})
	}
}

// twice publishes each message twice.
type twice struct{ message.Publisher }

func (p twice) Publish(topic string, ms ...*message.Message) error {
	return p.Publisher.Publish(topic, append(ms, ms...)...)
}

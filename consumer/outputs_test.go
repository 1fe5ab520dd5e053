package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// sources are a group and a cursor of a stage.
var sources = map[string]func(s *stage) consumer.Source{
	"group":  func(s *stage) consumer.Source { return s.source() },
	"cursor": func(s *stage) consumer.Source { return consumer.Exclusive(s.cursor()) },
}

// TestBadOutputs: an output that cannot be written is its own message's failure, told among the dead letters, and has no
// effect; the others of the same commit have theirs.
func TestBadOutputs(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for name, source := range sources {
			for _, pack := range []int{1, 10} {
				t.Run(fmt.Sprintf("%s-%d", name, pack), func(t *testing.T) {
					t.Parallel()
					s := newStage(t, server)
					s.append(50, pack)
					bad := map[string][]tier.Output{
						"3":  {tier.HashIncrement("total", "text", 1)},
						"13": {tier.SetAdd("total", "m")},
						"23": {tier.AppendTo("elsewhere/orders", codec.Message{})},
						"24": {tier.HashSet("no:name", "f", "v")},
						"33": make([]tier.Output, consumer.MaxOutputs+1),
					}
					s.run(source(s), func(_ context.Context, d *consumer.Delivery) error {
						d.Emit(tier.HashIncrement("total", "n", 1), tier.HashSet("total", "text", "a"))
						d.Emit(bad[d.Key]...)
						if d.Key == "40" {
							return consumer.Permanent(errMailbox) // of which the outputs are dropped
						}
						return nil
					}, consumer.Config{Concurrency: 1})
					tiertest.Eventually(t, patience, func() (bool, string) {
						n := s.state("total")["n"]
						return n == "44" && len(s.letters()) == 6, fmt.Sprint(n, " ", len(s.letters()))
					})
					var reasons []string
					for _, l := range s.letters() {
						reasons = append(reasons, l["reason"])
					}
					all := strings.Join(reasons, "\n")
					for _, reason := range []string{"no integer", "holds a hash, not a set", "append to an outbox", "is not one of A-Z", "at most 4096", "mailbox"} {
						require.Contains(t, all, reason)
					}
				})
			}
		}
	})
}

// TestOutputsOnAFullServer (B147): outputs that a full server refuses are written once it has room again, and meanwhile
// what has none is settled.
func TestOutputsOnAFullServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for name, source := range sources {
			t.Run(fmt.Sprintf("%s/%s", name, kind), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, tiertest.Private(t, kind))
				s.lease = time.Second
				s.append(20, 1)
				reg := prometheus.NewRegistry()
				full, begun := make(chan struct{}), newTally()
				r := s.run(source(s), func(_ context.Context, d *consumer.Delivery) error {
					begun.add(d.Key)
					if i, err := strconv.Atoi(d.Key); err != nil || i%2 == 0 {
						d.Emit(tier.HashIncrement("total", "n", 1))
					}
					<-full
					return nil
				}, consumer.Config{Registerer: reg, Concurrency: 20})
				begun.reach(t, 20, patience)
				s.config("maxmemory", "1")
				close(full)
				tiertest.Eventually(t, patience, func() (bool, string) {
					failed := sum(t, reg, "echomq_consumer_commit_failures_total", "", "")
					settled := sum(t, reg, "echomq_consumer_settled_entries_total", "", "")
					return failed >= 20 && settled == 10, fmt.Sprint(failed, " refused, ", settled, " settled")
				})
				require.Empty(t, s.state("total"))
				s.config("maxmemory", "0")
				tiertest.Eventually(t, patience, func() (bool, string) {
					n := s.state("total")["n"]
					return n == "10", n
				})
				r.stop()
				require.NoError(t, r.wait(patience))
				require.Equal(t, "10", s.state("total")["n"])
			})
		}
	}
}

// TestOutputsOfBatches: what the messages of a batch emit happens once each, with those that are settled.
func TestOutputsOfBatches(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for name, source := range sources {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				s.append(500, 7)
				c, err := consumer.NewBatch(source(s), func(_ context.Context, batch []*consumer.Delivery) []error {
					verdicts := make([]error, len(batch))
					for i, d := range batch {
						d.Emit(tier.HashIncrement("counts", d.Key, 1))
						if len(d.Key)%2 == 1 && d.Attempt == 1 {
							verdicts[i] = consumer.RetryAfter(errors.New("first time"), time.Millisecond)
						}
					}
					return verdicts
				}, consumer.Config{BatchSize: 50})
				require.NoError(t, err)
				s.begin(c)
				tiertest.Eventually(t, patience, func() (bool, string) {
					n := len(s.state("counts"))
					return n == 500, strconv.Itoa(n)
				})
				for key, n := range s.state("counts") {
					require.Equal(t, "1", n, key)
				}
			})
		}
	})
}

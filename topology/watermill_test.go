package topology_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

const bussed = `topology: NAME
scopes: {SCOPE: {streams: {in: {}, noted: {}, secret: {external: true}}}}
sources:
  numbered: {to: SCOPE/in, key: headers.n, data: "{n: data + 1}", watermill: {name: by position, topic: orders}}
  noted: {to: SCOPE/noted, watermill: {name: by window, topic: orders}}
sinks: {told: {from: SCOPE/in, watermill: {name: bus, topic: told}}}
`

// shelf is a topic that gives all that it has, in order, to each who subscribes.
type shelf []*message.Message

func (s shelf) Close() error { return nil }

func (s shelf) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for _, m := range s {
			select {
			case out <- m.Copy():
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	return out, nil
}

// TestWatermill: topics of Watermill's subscribers come in, by position or within a window, and go out to its publishers, with just the
// rights that the document gives: what a subscriber gives again, to a run after the one that was stopped, is there once (B74).
func TestWatermill(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	f := setUp(t, s)
	doc := f.document(bussed)
	f.apply(doc)
	bus := gochannel.NewGoChannel(gochannel.Config{Persistent: true, OutputChannelBuffer: 16}, nil)
	t.Cleanup(func() { require.NoError(t, bus.Close()) })
	const count = 2000
	var orders shelf
	for n := range count {
		m := message.NewMessage(fmt.Sprint("uuid ", n), []byte(strconv.Itoa(n)))
		if n == 7 {
			m.Payload = []byte("{}") // to which nothing is added
		}
		m.Metadata["n"] = strconv.Itoa(n)
		orders = append(orders, m)
	}
	var over atomic.Int64
	pour := func(change func(*bridge.SourceConfig)) stage.Subscriber {
		return func(to stage.Topic) (interface{ Run(context.Context) error }, error) {
			cfg := bridge.SourceConfig{Topic: to.Topic, Address: to.To, Make: to.Make, Poison: func(_ context.Context, m *message.Message, why error) error {
				over.Add(1)
				to.PassOver(m.UUID, why)
				return nil
			}}
			if change(&cfg); cfg.Position != nil {
				cfg.Name = to.Source
			}
			return bridge.NewSource(to.Client, orders, cfg)
		}
	}
	opts := stage.Options{
		Subscribers: map[string]stage.Subscriber{
			"by window": pour(func(c *bridge.SourceConfig) { c.Window = time.Minute }),
			"by position": pour(func(c *bridge.SourceConfig) {
				c.Position = func(m *message.Message) (string, uint64, error) {
					n, err := strconv.ParseUint(m.Metadata["n"], 10, 64)
					return "", n + 1, err
				}
			}),
		},
		Publishers: map[string]stage.Publisher{"bus": func(topic string) consumer.Handler { return bridge.Sink(bus, topic) }},
	}
	part := func(role, name string) stage.Runner {
		client := f.role(s, doc, role, name)
		f.requireRefused(client, f.own)
		r, err := topology.NewRun(client, doc, topology.RunOptions{Only: []string{name}, Options: opts})
		require.NoError(t, err)
		return r
	}
	_, err := topology.NewRun(f.client, doc, topology.RunOptions{})
	require.ErrorIs(t, err, stage.ErrNoTopics)

	for name, to := range map[string]string{"numbered": f.own + "/in", "noted": f.own + "/noted"} {
		f.runs(part("source", name), func() bool { return f.length(to) > 5 })
		f.runs(part("source", name), func() bool { return f.last(to) == strconv.Itoa(count-1) })
	}
	require.Positive(t, over.Load())
	require.Equal(t, int64(count-1), f.length(f.own+"/in"))
	require.Equal(t, int64(count), f.length(f.own+"/noted"), "it makes nothing of them")

	told, err := bus.Subscribe(f.ctx, "told")
	require.NoError(t, err)
	f.runs(part("sink", "told"), func() bool { return f.handled("in", "told") })
	seen := map[string]string{}
	for range count - 1 {
		m := <-told
		seen[m.UUID] = string(m.Payload)
		m.Ack()
	}
	require.Len(t, seen, count-1)
	require.JSONEq(t, `{"n":10}`, seen["uuid 9"])
}

// last is the number of the last message of a stream, as it came.
func (f *fixture) last(address string) (n string) {
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: address})
	require.NoError(f, err)
	records, err := r.Last(f.ctx, 1)
	require.NoError(f, err)
	for _, record := range records {
		n, _ = codec.Headers(record.Headers).Get("n")
	}
	return n
}

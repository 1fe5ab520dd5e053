package benchmarks_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const (
	batch       = 500     // entries that a call reads, or settles
	payload     = 200     // bytes of a message
	messages    = 100_000 // a round
	address     = "bench/orders"
	minimumRuns = 5
)

// BenchmarkConsumerOverhead compares, on one server and by turns, a plain loop that reads 500 entries and acknowledges them
// with the runtime that does the same: each has a group of its own on the same stream, once a round.
//
//	raw      XREADGROUP COUNT 500 together with the XACK of the batch before; the library's XREAD reply, one field looked at
//	bare     the same, and of the reply only the ids are looked at: less than any program can do with
//	member   a member of a group that reads and settles 500, without the runtime
//	runtime  a consumer whose handler looks at the message's data
//
// Run it with -benchtime=5x for five rounds, which is the least.
func BenchmarkConsumerOverhead(b *testing.B) {
	server := tiertest.Private(b, tiertest.Valkey)
	client := tiertest.Dial(b, server)
	fill(b, client)
	m, err := bench.NewMeter(b.Context(), client, key)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	raw := rawClient(b, server)
	contestants := []struct {
		name string
		run  func(group string)
	}{
		{"raw", func(group string) { rawLoop(b, raw, group, takeEntries) }},
		{"bare", func(group string) { rawLoop(b, raw, group, takeIDs) }},
		{"member", func(group string) { memberLoop(b, groupOf(b, client, group)) }},
		{"runtime", func(group string) { runtimeLoop(b, groupOf(b, client, group)) }},
	}
	var names []string
	rounds := map[string][]bench.Cost{}
	for _, c := range contestants {
		names = append(names, c.name)
		c.run("warm-" + c.name)
	}
	for round := range max(minimumRuns, b.N) {
		for _, c := range contestants {
			group := c.name + "-" + strconv.Itoa(round)
			rounds[c.name] = append(rounds[c.name], measure(b, m, func() { c.run(group) }))
			if err := groupOf(b, client, group).Delete(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	report(b, messages, names, rounds)
}

// fill appends the messages of a round.
func fill(b *testing.B, client *tier.Client) {
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: address, Brand: "ORD"})
	if err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), payload)
	for at := 0; at < messages; at += 2000 {
		list := make([]codec.Message, 2000)
		for i := range list {
			list[i] = codec.Message{Type: "order.placed", Key: strconv.Itoa(at + i), Data: data}
		}
		if _, err := w.AppendBatch(b.Context(), list); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConsumerFar is a consumer with its defaults whose server is 2 ms away in each direction: what it costs to wait for replies.
func BenchmarkConsumerFar(b *testing.B) {
	server := tiertest.Private(b, tiertest.Valkey)
	fill(b, tiertest.Dial(b, server))
	proxy := tiertest.NewProxy(b, server)
	client := tiertest.Dial(b, proxy)
	proxy.Delay(2 * time.Millisecond)
	for b.Loop() {
		g := groupOf(b, client, rand.Text())
		var left atomic.Int64
		left.Store(messages)
		all := make(chan struct{})
		c, err := consumer.New(consumer.Group(g), func(context.Context, *consumer.Delivery) error {
			if left.Add(-1) == 0 {
				close(all)
			}
			return nil
		}, consumer.Config{})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		<-all
		b.StopTimer()
		stop()
		if err := errors.Join(<-ended, g.Delete(b.Context())); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(messages)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

var key = func() string {
	scope, name, _ := strings.Cut(address, "/")
	return "emq:{" + scope + "}:stream:" + name
}()

// rawLoop reads a group from the head to the end of the stream.
func rawLoop(b *testing.B, db rueidis.Client, group string, take func(*testing.B, rueidis.RedisResult) []string) {
	ctx := b.Context()
	if err := db.Do(ctx, db.B().XgroupCreate().Key(key).Group(group).Id("0").Build()).Error(); err != nil {
		b.Fatal(err)
	}
	var ids []string
	for total := 0; ; {
		cmds := make([]rueidis.Completed, 0, 2)
		if len(ids) > 0 {
			cmds = append(cmds, db.B().Xack().Key(key).Group(group).Id(ids...).Build())
		}
		cmds = append(cmds, db.B().Xreadgroup().Group(group, "me").Count(batch).Streams().Key(key).Id(">").Build())
		results := db.DoMulti(ctx, cmds...)
		if len(results) == 2 {
			n, err := results[0].AsInt64()
			if err != nil || n != int64(len(ids)) {
				b.Fatalf("XACK answered %d, %v", n, err)
			}
			total += len(ids)
		}
		if total == messages {
			return
		}
		ids = take(b, results[len(results)-1])
	}
}

// takeEntries reads the reply as the client library offers it.
func takeEntries(b *testing.B, r rueidis.RedisResult) (ids []string) {
	streams, err := r.AsXRead()
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range streams[key] {
		if len(e.FieldValues["m"]) < payload {
			b.Fatal("a message is missing")
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// takeIDs looks at nothing but the ids.
func takeIDs(b *testing.B, r rueidis.RedisResult) (ids []string) {
	m, err := r.ToMessage()
	if err != nil {
		b.Fatal(err)
	}
	streams, err := m.AsMap()
	if err != nil {
		b.Fatal(err)
	}
	entries := streams[key]
	list, err := entries.ToArray()
	if err != nil {
		b.Fatal(err)
	}
	ids = make([]string, len(list))
	for i := range list {
		pair, err := list[i].ToArray()
		if err != nil {
			b.Fatal(err)
		}
		if ids[i], err = pair[0].ToString(); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

func groupOf(b *testing.B, client *tier.Client, name string) *stream.Group {
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: address, Name: name, Start: stream.Head()})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// memberLoop is the same work done by a member without the runtime, one call after another.
func memberLoop(b *testing.B, g *stream.Group) {
	ctx := b.Context()
	m, err := g.Join(ctx, "member")
	if err != nil {
		b.Fatal(err)
	}
	var ids []codec.EntryID
	for total := 0; total < messages; {
		leased, err := m.ReadAgain(ctx, batch, 0)
		if err != nil {
			b.Fatal(err)
		}
		ids = ids[:0]
		for i := range leased {
			if len(leased[i].Records[0].Data) != payload {
				b.Fatal("a message is missing")
			}
			ids = append(ids, leased[i].Entry)
		}
		n, err := m.Settle(ctx, ids)
		if err != nil || n != len(ids) {
			b.Fatalf("settled %d of %d: %v", n, len(ids), err)
		}
		total += n
	}
	if err := m.Leave(ctx); err != nil {
		b.Fatal(err)
	}
}

// runtimeLoop is the same work done by a consumer.
func runtimeLoop(b *testing.B, g *stream.Group) {
	var left atomic.Int64
	left.Store(messages)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	c, err := consumer.New(consumer.Group(g), func(_ context.Context, d *consumer.Delivery) error {
		if len(d.Data) != payload {
			return errors.New("a message is missing")
		}
		if left.Add(-1) == 0 {
			stop()
		}
		return nil
	}, consumer.Config{MaxInFlight: 4 * batch})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		b.Fatal(err)
	}
}

package peers_test

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// both is the stream of the match of that name.
var both = tier.Address{Scope: "bench", Stream: "both"}

// both publishes so many messages by one writer, while a consumer of a group with 8 handlers has them, until the last is settled.
func (p own) both(pack, messages int) outcome {
	c := p.dial()
	defer c.Close()
	ctx, cancel := context.WithCancel(p.a.b.Context())
	w, err := stream.NewWriter(c, stream.WriterConfig{Address: both.String(), Pack: pack})
	must(p.a.b, err)
	_, err = w.Declare(ctx)
	must(p.a.b, err)
	reads := p.dial()
	defer reads.Close()
	group, err := stream.NewGroup(reads, stream.GroupConfig{Address: both.String(), Name: "g", Start: stream.Head()})
	must(p.a.b, err)
	all := newCountdown(messages)
	co, err := consumer.New(consumer.Group(group), func(context.Context, *consumer.Delivery) error { all.saw(); return nil }, consumer.Config{Concurrency: 8})
	must(p.a.b, err)
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{w.Run, co.Run} {
		running.Go(func() { must(p.a.b, run(ctx)) })
	}
	<-w.Ready()
	<-co.Ready()
	o := p.a.measured(messages, func() {
		failed := make(chan error, 1)
		done := func(_ codec.ID, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}
		for range messages {
			must(p.a.b, w.Publish(ctx, codec.Message{Type: "noop", Data: payload}, done))
		}
		must(p.a.b, w.Flush(ctx))
		select {
		case err := <-failed:
			must(p.a.b, err)
		case <-all.none:
		}
		p.a.settled(both.LogKey())
	})
	cancel()
	running.Wait()
	return o
}

// settled waits until the group of a stream has nothing pending.
func (a *arena) settled(key string) {
	for {
		rows, err := a.db.Do(a.b.Context(), a.db.B().Xpending().Key(key).Group("g").Build()).ToArray()
		must(a.b, err)
		n, err := rows[0].AsInt64()
		must(a.b, err)
		if n == 0 {
			return
		}
	}
}

// both is 16 goroutines that publish, and a subscriber that acks.
func (w backend) both(messages int) outcome {
	s, end := w.subscriber(100)
	defer end()
	defer s.Close()
	p, endPublisher := w.publisher()
	defer endPublisher()
	defer p.Close()
	must(w.a.b, p.Publish(topic, note(payload)))
	out, err := s.Subscribe(w.a.b.Context(), topic)
	must(w.a.b, err)
	(<-out).Ack()
	return w.a.measured(messages, func() {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range messages {
				(<-out).Ack()
			}
		})
		wg.Go(func() {
			parallel(16, messages, func(int) { must(w.a.b, p.Publish(topic, note(payload))) })
		})
		wg.Wait()
	})
}

// byHand is go-redis in two loops: 100 XADD a pipeline; XREADGROUP of 100, then XACK of what it brought. Nothing is repeated, fenced or decoded.
func byHand(a *arena, messages int) outcome {
	const atOnce, key = 100, "bench"
	ctx := a.b.Context()
	dial := func() *redis.Client { return redis.NewClient(&redis.Options{Network: a.network, Addr: a.addr}) }
	writes, reads := dial(), dial()
	defer writes.Close()
	defer reads.Close()
	must(a.b, reads.XGroupCreateMkStream(ctx, key, "g", "0").Err())
	return a.measured(messages, func() {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range messages / atOnce {
				_, err := writes.Pipelined(ctx, func(p redis.Pipeliner) error {
					for range atOnce {
						p.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{"m", payload}})
					}
					return nil
				})
				must(a.b, err)
			}
		})
		wg.Go(func() {
			for left := messages; left > 0; {
				got, err := reads.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{key, ">"}, Count: atOnce, Block: 0}).Result()
				must(a.b, err)
				ids := make([]string, len(got[0].Messages))
				for i := range ids {
					ids[i] = got[0].Messages[i].ID
				}
				must(a.b, reads.XAck(ctx, key, "g", ids...).Err())
				left -= len(ids)
			}
		})
		wg.Wait()
	})
}

// BenchmarkStreams compares streams, end to end: published and consumed at once. ROUNDS, MATCH and PERSISTENCE are as for BenchmarkJobs.
func BenchmarkStreams(b *testing.B) {
	a := newArena(b)
	nats, rabbit, theirs := newNATS(a), newRabbitMQ(a), redisStream(a)
	const messages = 200_000
	against := func(name string, goal float64, ours func(*arena) outcome, peer contestant) match {
		return match{name: "both at once, " + name, unit: "messages/s", goal: goal, contestants: []contestant{{name: "pipeline", run: ours}, peer}}
	}
	plain := func(a *arena) outcome { return own{a}.both(1, messages) }
	packs := func(a *arena) outcome { return own{a}.both(100, messages) }
	matches := []match{
		against("watermill-redisstream", 13, plain, contestant{name: "redisstream", run: func(*arena) outcome { return theirs.both(messages / 10) }}),
		against("NATS JetStream", 2, plain, contestant{"nats", func(*arena) outcome { return nats.both(messages) }, nats.on}),
		against("in packs of 100, NATS JetStream", 8, packs, contestant{"nats", func(*arena) outcome { return nats.both(messages) }, nats.on}),
		against("RabbitMQ Streams", 0, plain, contestant{"rabbitmq", func(*arena) outcome { return rabbit.both(1, messages) }, rabbit.on}),
		against("in packs of 100, RabbitMQ Streams", 0, packs, contestant{"rabbitmq, 100 a sub-entry", func(*arena) outcome { return rabbit.both(100, messages) }, rabbit.on}),
		against("go-redis by hand", 0, plain, contestant{name: "go-redis", run: func(a *arena) outcome { return byHand(a, messages) }}),
	}
	a.compare("streams", matches)
}

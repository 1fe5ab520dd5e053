package peers_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// backend is one of Watermill.
type backend struct {
	a          *arena
	publisher  func() (message.Publisher, func())
	subscriber func(inFlight int) (message.Subscriber, func())
}

const topic = "bench"

// ourBackend is the bridge with its defaults, but for what a match says.
func ourBackend(a *arena) backend {
	topics := bridge.Topics{Scope: "bench"}
	dial := func() *tier.Client { return own{a}.dial() }
	return backend{
		a,
		func() (message.Publisher, func()) {
			c := dial()
			p, err := bridge.NewPublisher(c, bridge.PublisherConfig{Topics: topics})
			must(a.b, err)
			return p, c.Close
		},
		func(inFlight int) (message.Subscriber, func()) {
			c := dial()
			s, err := bridge.NewSubscriber(c, bridge.SubscriberConfig{Topics: topics, Group: "g", MaxInFlight: inFlight, Start: stream.Head()})
			must(a.b, err)
			return s, c.Close
		},
	}
}

// redisStream is watermill-redisstream with its defaults. It gives out one message at a time, whatever a match says, and closes its
// clients itself.
func redisStream(a *arena) backend {
	dial := func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Network: a.network, Addr: a.addr})
	}
	return backend{
		a,
		func() (message.Publisher, func()) {
			p, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: dial()}, nil)
			must(a.b, err)
			return p, func() {}
		},
		func(int) (message.Subscriber, func()) {
			s, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{Client: dial(), ConsumerGroup: "g", DisableIndefiniteInitialBlock: true}, nil)
			must(a.b, err)
			return s, func() {}
		},
	}
}

func note(data []byte) *message.Message {
	return message.NewMessage("0f0e6d2c-6a8f-4a1b-9a51-0d1c5e7f6a3b", data)
}

// publishes makes calls of so many messages.
func (w backend) publishes(goroutines, messages, atOnce int) outcome {
	p, end := w.publisher()
	defer end()
	defer p.Close()
	return w.a.measured(messages, func() {
		parallel(goroutines, messages/atOnce, func(int) {
			ms := make([]*message.Message, atOnce)
			for i := range ms {
				ms[i] = note(payload)
			}
			must(w.a.b, p.Publish(topic, ms...))
		})
	})
}

// subscribes receives and acks what was published before, by one goroutine for each message that may be out, as the Router does.
func (w backend) subscribes(inFlight, messages int) outcome {
	w.publishes(8, messages, 100)
	s, end := w.subscriber(inFlight)
	defer end()
	defer s.Close()
	return w.a.measured(messages, func() {
		out, err := s.Subscribe(w.a.b.Context(), topic)
		must(w.a.b, err)
		var wg sync.WaitGroup
		left := make(chan struct{}, messages)
		for range messages {
			left <- struct{}{}
		}
		for range inFlight {
			wg.Go(func() {
				for {
					select {
					case <-left:
						(<-out).Ack()
					default:
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func (w backend) latency() outcome {
	s, end := w.subscriber(1)
	defer end()
	defer s.Close()
	out, err := s.Subscribe(w.a.b.Context(), topic)
	must(w.a.b, err)
	l := newLatency()
	go func() {
		for m := range out {
			l.started(m.Payload)
			m.Ack()
		}
	}()
	p, endPublisher := w.publisher()
	defer endPublisher()
	defer p.Close()
	must(w.a.b, p.Publish("warm", note(payload)))
	time.Sleep(time.Second) // until both wait
	return l.run(w.a, func(data []byte) { must(w.a.b, p.Publish(topic, note(data))) })
}

// BenchmarkWatermill compares the bridge with watermill-redisstream. ROUNDS, MATCH and PERSISTENCE are as for BenchmarkJobs.
func BenchmarkWatermill(b *testing.B) {
	a := newArena(b)
	us, them := ourBackend(a), redisStream(a)
	both := func(name string, goal float64, ours, theirs func() outcome) match {
		return match{name: name, unit: "messages/s", goal: goal, contestants: []contestant{
			{name: "bridge", run: func(*arena) outcome { return ours() }}, {name: "redisstream", run: func(*arena) outcome { return theirs() }},
		}}
	}
	matches := []match{
		both("publish, one goroutine", 1, func() outcome { return us.publishes(1, 5_000, 1) }, func() outcome { return them.publishes(1, 5_000, 1) }),
		both("publish, 16 goroutines", 2, func() outcome { return us.publishes(16, 100_000, 1) }, func() outcome { return them.publishes(16, 20_000, 1) }),
		both("publish slices of 100, one goroutine", 8, func() outcome { return us.publishes(1, 100_000, 100) }, func() outcome { return them.publishes(1, 10_000, 100) }),
	}
	for _, n := range []int{1, 100} {
		goal := map[int]float64{1: 2, 100: 8}[n]
		matches = append(matches, both(fmt.Sprintf("subscribe and ack, MaxInFlight %d", n), goal,
			func() outcome { return us.subscribes(n, 100_000) }, func() outcome { return them.subscribes(1, 10_000) }))
	}
	last := both("from publish to receive, 1,000 messages/s", 1, us.latency, them.latency)
	last.unit, last.lower = "ms at the median", true
	matches = append(matches, last)
	a.compare("watermill", matches)
}

package peers_test

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPeer is JetStream on a server of its own on loopback, with its defaults, in memory.
type natsPeer struct {
	a       *arena
	url, on string
}

func newNATS(a *arena) *natsPeer {
	path, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	must(a.b, err)
	port := freePort(a.b)
	a.start(exec.Command(strings.TrimSpace(string(path)), "-a", "127.0.0.1", "-p", port, "-js", "-sd", a.b.TempDir()))
	p := &natsPeer{a: a, url: "nats://127.0.0.1:" + port}
	nc := p.dial()
	defer nc.Close()
	p.on = fmt.Sprintf("NATS %s, in memory only", nc.ConnectedServerVersion())
	return p
}

func (p *natsPeer) dial() *nats.Conn {
	nc, err := nats.Connect(p.url, nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
	must(p.a.b, err)
	must(p.a.b, nc.FlushTimeout(10*time.Second))
	return nc
}

// both publishes without waiting for each, 4096 on their way, while a consumer acks without waiting.
func (p *natsPeer) both(messages int) outcome {
	ctx, nc := p.a.b.Context(), p.dial()
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	must(p.a.b, err)
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "bench", Subjects: []string{"bench"}, Storage: jetstream.MemoryStorage})
	must(p.a.b, err)
	defer func() { must(p.a.b, js.DeleteStream(ctx, "bench")) }()
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "g", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 20_000})
	must(p.a.b, err)
	all := newCountdown(messages)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		must(p.a.b, m.Ack())
		all.saw()
	}, jetstream.PullMaxMessages(5000))
	must(p.a.b, err)
	defer consuming.Stop()
	return p.a.measured(messages, func() {
		for range messages {
			_, err := js.PublishAsync("bench", payload, jetstream.WithStallWait(time.Minute)) // for room: by default an error after 200 ms
			must(p.a.b, err)
		}
		<-js.PublishAsyncComplete()
		all.wait(p.a.b)
		must(p.a.b, nc.Flush())
	})
}

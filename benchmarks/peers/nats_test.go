package peers_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPeer is JetStream on a server of its own on loopback, with its defaults, in memory.
type natsPeer struct {
	a  *arena
	nc *nats.Conn
	js jetstream.JetStream
}

func newNATS(a *arena) *natsPeer {
	path, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	must(a.b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(a.b, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(a.b, l.Close())
	var said bytes.Buffer
	server := exec.Command(strings.TrimSpace(string(path)), "-a", "127.0.0.1", "-p", fmt.Sprint(port), "-js", "-sd", a.b.TempDir())
	server.Stdout, server.Stderr = &said, &said
	must(a.b, server.Start())
	a.b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if a.b.Failed() {
			a.b.Log(said.String())
		}
	})
	a.beside = func() time.Duration { return cpuOf(a, server.Process.Pid) }
	p := &natsPeer{a: a}
	p.nc, err = nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
	must(a.b, err)
	a.b.Cleanup(p.nc.Close)
	must(a.b, p.nc.FlushTimeout(10*time.Second))
	p.js, err = jetstream.New(p.nc, jetstream.WithPublishAsyncMaxPending(4096))
	must(a.b, err)
	return p
}

// cpuOf is how much CPU time a process has used.
func cpuOf(a *arena, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(a.b, err)
	var user, system int64
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	must(a.b, err)
	return time.Duration(user+system) * 10 * time.Millisecond // ticks, of which Linux has 100 a second
}

// both publishes without waiting for each, 4096 on their way, while a consumer acks without waiting.
func (p *natsPeer) both(messages int) outcome {
	ctx := p.a.b.Context()
	_ = p.js.DeleteStream(ctx, "bench")
	s, err := p.js.CreateStream(ctx, jetstream.StreamConfig{Name: "bench", Subjects: []string{"bench"}, Storage: jetstream.MemoryStorage})
	must(p.a.b, err)
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
		var wg sync.WaitGroup
		wg.Go(func() {
			for range messages {
				_, err := p.js.PublishAsync("bench", payload)
				must(p.a.b, err)
			}
			<-p.js.PublishAsyncComplete()
		})
		<-all.none
		wg.Wait()
		must(p.a.b, p.nc.Flush())
	})
}

//go:build !race

package bridge_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestReconnect (B28, B58): the server is restarted twice while a hundred publish and one receives; nothing is lost. The test is
// Watermill's, which has a data race of its own, so it does not run with -race.
func TestReconnect(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind, "--appendonly", "yes", "--appendfsync", "always")
			all := suite{client: tiertest.Dial(t, server), scope: tiertest.AuditedScope(t, server)}
			features := all.features(false)
			features.RestartServiceCommand = []string{os.Args[0], restartArg, serveRestarts(t, server)}
			tests.TestReconnect(t, tests.TestContext{TestID: tests.NewTestID(), Features: features}, func(t *testing.T) (message.Publisher, message.Subscriber) {
				pub, sub := all.pair(t, "reconnect")
				counted := &counter{Publisher: pub, all: make(chan struct{})}
				return counted, patient{sub, counted.all}
			})
		})
	}
}

// counter tells when all messages of the test are published.
type counter struct {
	message.Publisher
	n   atomic.Int64
	all chan struct{}
}

const reconnectMessages = 10000

func (c *counter) Publish(topic string, ms ...*message.Message) error {
	err := c.Publisher.Publish(topic, ms...)
	if err == nil && c.n.Add(1) == reconnectMessages {
		close(c.all)
	}
	return err
}

// patient holds the last message back until all are published, and a moment longer: the test compares what it has received with
// what it has noted as published, and a message may come before its publisher has noted it.
type patient struct {
	message.Subscriber
	all <-chan struct{}
}

func (p patient) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := p.Subscriber.Subscribe(ctx, topic)
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		seen := map[string]bool{}
		for m := range in {
			if seen[m.UUID] = true; len(seen) == reconnectMessages {
				<-p.all
				<-time.After(200 * time.Millisecond)
			}
			out <- m
		}
	}()
	return out, err
}

// serveRestarts restarts the server for whoever connects to the socket that it returns, and hangs up when it answers.
func serveRestarts(t *testing.T, server *tiertest.Server) (socket string) {
	dir, err := os.MkdirTemp("", "bridge-")
	require.NoError(t, err)
	socket = filepath.Join(dir, "restart")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	served := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		<-served
		os.RemoveAll(dir)
	})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			server.Kill()
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
			conn.Close()
		}
	}()
	return socket
}

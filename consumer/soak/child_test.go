package soak_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const childEnv = "SOAK_CHILD"

func TestMain(m *testing.M) {
	if place := os.Getenv(childEnv); place != "" {
		os.Exit(childMain(place, consumeAndTell))
	}
	if place := os.Getenv(chaosChildEnv); place != "" {
		os.Exit(childMain(place, consumeInChaos))
	}
	if place := os.Getenv(jobsChildEnv); place != "" {
		os.Exit(childMain(place, workInDrill))
	}
	tiertest.Main(m)
}

// childMain is a consumer in a process of its own, until SIGTERM. Place is the server's URL and what the consumer needs to
// know, apart by spaces.
func childMain(place string, consume func(ctx context.Context, client *tier.Client, args []string) error) int {
	words := strings.Fields(place)
	err := func() error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		client, err := dialPatiently(ctx, words[0])
		if err != nil {
			return err
		}
		defer client.Close()
		return consume(ctx, client, words[1:])
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// consumeAndTell writes the key of each message that it handles, one a line.
func consumeAndTell(ctx context.Context, client *tier.Client, args []string) error {
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: args[0], Name: groupName, Start: stream.Head(), Lease: lease})
	if err != nil {
		return err
	}
	c, err := consumer.New(consumer.Group(g), func(_ context.Context, d *consumer.Delivery) error {
		_, err := os.Stdout.WriteString(d.Key + "\n") // in one write: a line is whole or not there
		return err
	}, consumer.Config{Concurrency: 4, MaxInFlight: 200})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// dialPatiently tries until the server is there, as whatever starts a process again does.
func dialPatiently(ctx context.Context, url string) (*tier.Client, error) {
	for try := 1; ; try++ {
		client, err := tier.Dial(ctx, url, tier.Options{})
		if err == nil || !tier.Pause(ctx, tier.CallDelay(try)) {
			return client, err
		}
	}
}

// child is a consumer process.
type child struct {
	t     testing.TB
	crew  *crew
	mu    sync.Mutex
	cmd   *exec.Cmd
	lines sync.WaitGroup
}

func (c *crew) spawn() *child {
	ch := &child{t: c.t, crew: c}
	ch.start()
	c.t.Cleanup(ch.kill)
	return ch
}

func (ch *child) start() {
	ch.cmd = exec.Command(os.Args[0])
	ch.cmd.Env = append(os.Environ(), childEnv+"="+ch.crew.url+" "+ch.crew.addr.String())
	ch.cmd.Stderr = os.Stderr
	out, err := ch.cmd.StdoutPipe()
	require.NoError(ch.t, err)
	require.NoError(ch.t, ch.cmd.Start())
	ch.lines.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			ch.crew.book.delivered(lines.Text())
		}
	})
}

func (ch *child) end(sig syscall.Signal) error {
	if ch.cmd.ProcessState != nil {
		return nil
	}
	_ = ch.cmd.Process.Signal(sig)
	ch.lines.Wait() // all that it wrote is in the book
	return ch.cmd.Wait()
}

func (ch *child) kill() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	_ = ch.end(syscall.SIGKILL)
}

func (ch *child) stop() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	require.NoError(ch.t, ch.end(syscall.SIGTERM))
}

// crash kills the process, and starts another.
func (ch *child) crash() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	_ = ch.end(syscall.SIGKILL)
	ch.start()
}

// freeze stops the process for longer than its lease; meanwhile happens in that time.
func (ch *child) freeze(meanwhile func()) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	require.NoError(ch.t, ch.cmd.Process.Signal(syscall.SIGSTOP))
	tier.Pause(context.Background(), 2*lease)
	meanwhile()
	require.NoError(ch.t, ch.cmd.Process.Signal(syscall.SIGCONT))
}

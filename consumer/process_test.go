package consumer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// These tests run consumers in processes of their own: the test binary, started again with this in its environment.
const childEnv = "CONSUMER_TEST_CHILD"

const (
	childInFlight   = 256
	childDeliveries = 3
	poisonKey       = "poison" // kills the process that handles it
	hangKey         = "hang"   // is never done there
)

// child is the program of such a process: it writes the key of each message that it handles, one a line, and nothing
// else, until it is told to stop. Its exit code is 0 after a clean stop.
func child(address string) int {
	url, rest, _ := strings.Cut(address, " ")
	scopeAndStream, leaseText, _ := strings.Cut(rest, " ")
	err := func() error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		client, err := tier.Dial(ctx, url, tier.Options{})
		if err != nil {
			return err
		}
		defer client.Close()
		lease, err := time.ParseDuration(leaseText)
		if err != nil {
			return err
		}
		g, err := stream.NewGroup(client, stream.GroupConfig{Address: scopeAndStream, Name: groupName, Start: stream.Head(), Lease: lease})
		if err != nil {
			return err
		}
		c, err := consumer.New(consumer.Group(g), func(_ context.Context, d *consumer.Delivery) error {
			if d.Key == poisonKey {
				os.Exit(3)
			}
			if d.Key == hangKey {
				<-ctx.Done()
				return ctx.Err()
			}
			// One write, so that a line is whole or not there.
			_, err := os.Stdout.WriteString(d.Key + "\n")
			return err
		}, consumer.Config{MaxInFlight: childInFlight, MaxDeliveries: childDeliveries})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a consumer in a process of its own.
type process struct {
	*exec.Cmd
	t       testing.TB
	handled *tally // of this process
	read    sync.WaitGroup
	ended   chan struct{} // its output has
}

// over says whether the process has ended by itself.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// spawn starts a consumer; what it handles is added to all.
func (s *stage) spawn(all *tally) *process {
	p := &process{t: s.t, handled: newTally(), ended: make(chan struct{}), Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{s.server.URL(), s.addr.String(), s.lease.String()}, " "))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, p.Start())
	p.read.Go(func() {
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.handled.add(lines.Text())
			all.add(lines.Text())
		}
		_, _ = io.Copy(io.Discard, out)
	})
	s.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal and waits until the process has ended and all that it wrote is counted.
func (p *process) end(sig syscall.Signal) error {
	if p.ProcessState != nil {
		return nil
	}
	_ = p.Process.Signal(sig)
	p.read.Wait()
	return p.Wait()
}

// Three consumers in processes of their own; one is killed in the middle of 100,000 messages. Each message is handled at
// least once, what is repeated was in flight at the dead one, and nothing is left pending.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, kind))
			s.lease = 4 * time.Second
			require.NoError(t, s.group(s.client).Create(t.Context()))
			all := newTally()
			processes := []*process{s.spawn(all), s.spawn(all), s.spawn(all)}
			appended := make(chan struct{})
			go func() {
				defer close(appended)
				s.append(n, 1)
			}()
			victim := processes[0]
			victim.handled.reach(t, 5_000, patience)
			require.Error(t, victim.end(syscall.SIGKILL))
			all.reach(t, n, patience)
			<-appended
			s.settled(patience)
			require.LessOrEqual(t, all.deliveries()-n, childInFlight, "repeats are what was in flight")
			for _, p := range processes[1:] {
				require.NoError(t, p.end(syscall.SIGTERM))
				require.Greater(t, p.handled.distinct(), n/10)
			}
			require.EqualValues(t, 1, s.info().Consumers, "the dead one, which others retire when it has been silent for long")
			require.Equal(t, n, all.distinct())
		})
	}
}

// B16, B17: a process is frozen for longer than its lease, and wakes while others go on with what it held. None of it is
// lost, what is repeated was in flight, and the process goes on as a member of the group.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.lease = 2 * time.Second
	const n = 40_000
	s.append(n/2, 1)
	all := newTally()
	frozen, other := s.spawn(all), s.spawn(all)
	frozen.handled.reach(t, 1_000, patience)
	require.NoError(t, frozen.Process.Signal(syscall.SIGSTOP))
	all.reach(t, n/2, patience)
	s.settled(patience)
	before := all.deliveries()
	require.NoError(t, frozen.Process.Signal(syscall.SIGCONT))
	s.append(n/2, 1)
	tiertest.Eventually(t, patience, func() (bool, string) {
		return all.deliveries() >= before+n/2, fmt.Sprintf("%d of %d", all.deliveries(), before+n/2)
	})
	s.settled(patience)
	for _, p := range []*process{frozen, other} {
		require.NoError(t, p.end(syscall.SIGTERM))
	}
	for i := range n / 2 {
		require.GreaterOrEqual(t, all.count(strconv.Itoa(i)), 2, "appended twice")
	}
	require.LessOrEqual(t, all.deliveries()-n, childInFlight)
	require.Zero(t, s.info().Consumers)
}

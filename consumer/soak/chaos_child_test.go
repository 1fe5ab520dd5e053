package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

const (
	chaosChildEnv = "SOAK_CHAOS_CHILD"
	chaosLease    = 600 * time.Millisecond
	// chaosDeliveries is far above the attempts at which handlers of good messages fail, so that one in the dead letters was
	// carried there by another.
	chaosDeliveries = 12
	chaosFailures   = 3
)

// What a message of the chaos is, by its type.
const (
	fineMessage  = "fine"
	failsAlways  = "fails"  // its handler fails, whenever
	killsAlways  = "kills"  // its handler kills its process, whenever
	outStream    = "out"    // one message for each that was handled, with its key and data
	countsState  = "counts" // how many of each key
	totalState   = "total"  // field n: how many
	chaosKillOne = 4000     // one handler in so many kills its process
)

func chaosSource(client *tier.Client, address string, o consumer.Order) (consumer.Source, error) {
	if o == consumer.None {
		g, err := stream.NewGroup(client, stream.GroupConfig{Address: address, Name: groupName, Start: stream.Head(), Lease: chaosLease})
		return consumer.Group(g), err
	}
	c, err := stream.NewCursor(client, stream.CursorConfig{Address: address, Name: groupName, Start: stream.Head(), Lease: chaosLease})
	return consumer.Exclusive(c), err
}

// consumeInChaos handles messages as badly as handlers can: address, order, one failure in how many messages.
func consumeInChaos(ctx context.Context, client *tier.Client, args []string) error {
	rate, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	order, err := consumer.ParseOrder(args[1])
	if err != nil {
		return err
	}
	source, err := chaosSource(client, args[0], order)
	if err != nil {
		return err
	}
	out := strings.Split(args[0], "/")[0] + "/" + outStream
	cfg := consumer.Config{MaxDeliveries: chaosDeliveries, Backoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, MaxInFlight: 200, Order: order}
	if order != consumer.Strict {
		cfg.Concurrency = 4
	}
	c, err := consumer.New(source, func(ctx context.Context, d *consumer.Delivery) error {
		d.Emit(
			tier.AppendTo(out, codec.Message{Key: d.Key, Data: d.Data}),
			tier.HashIncrement(countsState, d.Key, 1), tier.HashIncrement(totalState, "n", 1),
		)
		switch {
		case d.Type == killsAlways:
			killSelf()
		case d.Type == failsAlways && rand.IntN(10) == 0:
			return consumer.Permanent(errMailbox)
		case d.Type == failsAlways:
			return errMailbox
		case rand.IntN(chaosKillOne) == 0 && d.Attempt <= chaosFailures:
			killSelf()
		case rand.IntN(rate) == 0 && d.Attempt <= chaosFailures:
			return misbehave(ctx)
		}
		return nil
	}, cfg)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // it comes in a moment
}

// misbehave ends a handler in one of the ways in which one can fail.
func misbehave(ctx context.Context) error {
	pause := time.Duration(rand.IntN(20)) * time.Millisecond
	switch rand.IntN(6) {
	case 0:
		return errMailbox
	case 1:
		return consumer.RetryAfter(errMailbox, pause)
	case 2:
		return consumer.Snooze(pause)
	case 3:
		panic(errors.New("as handlers do"))
	case 4:
		runtime.Goexit()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*pause)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// undying is a process that is started again whenever it was killed, until it is stopped.
type undying struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped bool
	deaths  int
	failed  string // how it ended, otherwise than killed or stopped
	over    chan struct{}
}

func keepAlive(t testing.TB, env string) *undying {
	u := &undying{over: make(chan struct{})}
	require.NoError(t, u.start(env))
	go func() {
		defer close(u.over)
		for u.await(env) {
		}
	}()
	t.Cleanup(func() {
		u.signal(syscall.SIGKILL, true)
		<-u.over
	})
	return u
}

func (u *undying) start(env string) error {
	u.cmd = exec.Command(os.Args[0])
	u.cmd.Env = append(os.Environ(), env)
	u.cmd.Stderr = os.Stderr
	return u.cmd.Start()
}

// await waits for the end of the process and starts it again; false when it is not to go on.
func (u *undying) await(env string) bool {
	err := u.cmd.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return false
	}
	if status, ok := u.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		u.failed = fmt.Sprint("a consumer ended: ", u.cmd.ProcessState, err)
		return false
	}
	u.deaths++
	if err := u.start(env); err != nil {
		u.failed = err.Error()
		return false
	}
	return true
}

func (u *undying) signal(sig syscall.Signal, last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = u.stopped || last
	_ = u.cmd.Process.Signal(sig)
}

// freeze stops the process for longer than its lease, unless it dies meanwhile.
func (u *undying) freeze() {
	u.signal(syscall.SIGSTOP, false)
	pause(2 * chaosLease)
	u.signal(syscall.SIGCONT, false)
}

func (u *undying) end() (deaths int, failed string) {
	u.signal(syscall.SIGTERM, true)
	<-u.over
	u.mu.Lock()
	defer u.mu.Unlock()
	if state := u.cmd.ProcessState; state.Exited() && !state.Success() && u.failed == "" { // not one that a fault has killed just now
		u.failed = "a consumer did not stop well: " + state.String()
	}
	return u.deaths, u.failed
}

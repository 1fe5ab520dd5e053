package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// These processes are the test binary, started again with this in its environment: a URL, an address and a directory.
const childEnv = "MIDDLEWARE_TEST_CHILD"

const shortLease = time.Second

// child handles messages with an effect that it has outside the server, a line in a file, and often enough dies before it or
// after it. A handler that is told that the effect may have happened looks for it.
func child(args string) error {
	parts := strings.Fields(args)
	ctx := context.Background()
	client, err := tier.Dial(ctx, parts[0], tier.Options{})
	if err != nil {
		return err
	}
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: parts[1], Name: "mailer", Start: stream.Head(), Lease: shortLease})
	if err != nil {
		return err
	}
	r, err := stream.NewRecords(client, stream.RecordsConfig{Address: parts[1], Name: "mailer", Hold: shortLease})
	if err != nil {
		return err
	}
	once, err := middleware.Once(middleware.OnceConfig{Records: r})
	if err != nil {
		return err
	}
	die := func() {
		if rand.N(25) == 0 {
			os.Exit(3)
		}
	}
	handler := func(ctx context.Context, d *consumer.Delivery) error {
		die()
		if middleware.EffectOf(ctx).Repeated() {
			if sent, err := os.ReadFile(filepath.Join(parts[2], "sent")); err == nil && slices.Contains(strings.Fields(string(sent)), d.Key) {
				return nil
			}
		}
		if err := appendLine(filepath.Join(parts[2], "sent"), d.Key); err != nil {
			return err
		}
		die()
		return nil
	}
	c, err := consumer.New(consumer.Group(g), middleware.Chain(handler, once), consumer.Config{Concurrency: 4, MaxInFlight: 8, MaxDeliveries: -1})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

// TestOnceThroughCrashes: processes die before effects, after them, and between them and their records. Each effect
// happens once, since those who come after are told when it may have happened.
func TestOnceThroughCrashes(t *testing.T) {
	t.Parallel()
	const n = 100
	s := tiertest.Shared(t, tiertest.Valkey)
	addr := tier.Address{Scope: tiertest.AuditedScope(t, s), Stream: "orders"}
	client := tiertest.Dial(t, s)
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: addr.String(), Name: "mailer", Start: stream.Head(), Lease: shortLease})
	require.NoError(t, err)
	require.NoError(t, g.Create(t.Context()))
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: addr.String()})
	require.NoError(t, err)
	ms := make([]codec.Message, n)
	for i := range ms {
		ms[i].Key = strconv.Itoa(i)
	}
	_, err = w.AppendBatch(t.Context(), ms)
	require.NoError(t, err)

	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	crashes := make(chan int, 2)
	for range 2 {
		go func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{s.URL(), addr.String(), dir}, " "))
				cmd.Stderr = os.Stderr
				_ = cmd.Run()
			}
			crashes <- n - 1
		}()
	}
	sent := func() []string {
		text, _ := os.ReadFile(filepath.Join(dir, "sent"))
		return strings.Fields(string(text))
	}
	tiertest.Eventually(t, 2*patience, func() (bool, string) { return len(sent()) >= n, fmt.Sprint(len(sent())) })
	tiertest.Eventually(t, patience, func() (bool, string) {
		groups, err := stream.Groups(t.Context(), client, addr.String())
		require.NoError(t, err)
		return groups[0].Lag == 0 && groups[0].Pending == 0 && groups[0].Parked == 0, fmt.Sprintf("%+v", groups[0])
	})
	stop()
	died := <-crashes + <-crashes
	require.Greater(t, died, 1, "nothing was tried")
	lines := sent()
	slices.Sort(lines)
	require.Len(t, slices.Compact(slices.Clone(lines)), n, "an effect is missing")
	require.Len(t, lines, n, "an effect happened twice")
}

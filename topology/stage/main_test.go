package stage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

const patience = time.Minute

// The test binary, started again with this in its environment, is a process that runs a stage: the server's URL and a
// scope.
const childEnv = "STAGE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(answererEnv) != "" {
		answerer()
		os.Exit(0)
	}
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	tiertest.Main(m)
}

func child(text string) error {
	url, scope, _ := strings.Cut(text, " ")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := tier.Dial(ctx, url, tier.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	name, cfg := "seconds", seconds(scope)
	switch {
	case os.Getenv("STAGE_TEST_EXEC") != "":
		name, cfg = "twice", twice(scope)
	case os.Getenv("STAGE_TEST_VERB") == "decide":
		name, cfg = "accounts", accounts(scope)
	}
	s, err := stage.New(client, name, cfg, stage.Options{})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// seconds is the stage of a child.
func seconds(scope string) stage.Config {
	return stage.Config{
		From: scope + "/in", To: scope + "/out", Lease: duration(time.Second),
		Window: &stage.Window{
			Tumbling: duration(time.Second), Time: "data.t", Lateness: duration(300 * time.Millisecond),
			Values: map[string]stage.Aggregate{"n": {Count: true}, "sum": {Sum: "data.v"}},
		},
	}
}

// bench is a scope of a test's own.
type bench struct {
	t      testing.TB
	server *tiertest.Server
	client *tier.Client
	scope  string
}

func newBench(t testing.TB, server *tiertest.Server) *bench {
	return &bench{t, server, tiertest.Dial(t, server), tiertest.AuditedScope(t, server)}
}

func (b *bench) address(name string) string { return b.scope + "/" + name }

func (b *bench) append(name string, ms ...codec.Message) {
	w, err := stream.NewWriter(b.client, stream.WriterConfig{Address: b.address(name), Pack: 10})
	require.NoError(b.t, err)
	for len(ms) > 0 {
		n := min(len(ms), 1000)
		_, err = w.AppendBatch(b.t.Context(), ms[:n])
		require.NoError(b.t, err)
		ms = ms[n:]
	}
}

// run runs a stage until the test, or its stop, ends.
func (b *bench) run(name string, cfg stage.Config, opts stage.Options) (stop func()) {
	s, err := stage.New(b.client, name, cfg, opts)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	done := false
	stop = func() {
		if !done {
			done = true
			cancel()
			require.NoError(b.t, <-ended)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// settled waits until a cursor has no lag.
func (b *bench) settled(name, cursor string) {
	tiertest.Eventually(b.t, patience, func() (bool, string) {
		all, err := stream.Cursors(b.t.Context(), b.client, b.address(name))
		for _, c := range all {
			if c.Name == cursor {
				return err == nil && c.Lag == 0, fmt.Sprint(c.Lag)
			}
		}
		return false, fmt.Sprint(err)
	})
}

// all are the messages of a stream.
func (b *bench) all(name string) (ms []codec.Message) {
	r, err := stream.NewReader(b.client, stream.ReaderConfig{Address: b.address(name)})
	require.NoError(b.t, err)
	for record, err := range r.Range(b.t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		if errors.Is(err, stream.ErrNoStream) {
			return nil // not yet
		}
		require.NoError(b.t, err)
		m := record.Message
		m.Data = append([]byte(nil), m.Data...)
		ms = append(ms, m)
	}
	return ms
}

// letters are the reasons of a stage's dead letters.
func (b *bench) letters(name, cursor string) (reasons []string) {
	for l, err := range stream.DeadLetters(b.t.Context(), b.client, b.address(name), cursor) {
		require.NoError(b.t, err)
		reasons = append(reasons, l.Reason)
	}
	return reasons
}

func event(key, data string) codec.Message { return codec.Message{Key: key, Data: []byte(data)} }

func data(ms []codec.Message) (all []string) {
	for _, m := range ms {
		all = append(all, m.Key+" "+string(m.Data))
	}
	return all
}

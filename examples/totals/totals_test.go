package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The test binary, started again with this in its environment, is a process that folds.
const childEnv = "TOTALS_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		url, file, _ := strings.Cut(text, " ")
		client, err := tier.Dial(context.Background(), url, tier.Options{})
		if err == nil {
			err = fold(context.Background(), client, file, time.Second)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tiertest.Main(m)
}

const patience = time.Minute

func place(t *testing.T, w *stream.Writer, from, n int) {
	t.Helper()
	ms := make([]codec.Message, n)
	for i := range ms {
		ms[i].Key = "c" + strconv.Itoa((from+i)%3)
		require.NoError(t, payload.Encode(&ms[i], Order{Total: fmt.Sprintf("%d.%02d", (from+i)/100, (from+i)%100)}))
	}
	_, err := w.AppendBatch(t.Context(), ms)
	require.NoError(t, err)
}

// TestKilledProcesses: of two processes that fold while orders come, the owner is killed again and again; each order counts
// once.
func TestKilledProcesses(t *testing.T) {
	server := tiertest.Private(t, tiertest.Valkey)
	client := tiertest.Dial(t, server)
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: address})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "totals.db")
	s, err := openStore(t.Context(), file, version)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })

	running := map[int]*exec.Cmd{}
	spawn := func() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+server.URL()+" "+file)
		require.NoError(t, cmd.Start())
		running[cmd.Process.Pid] = cmd
	}
	kill := func(pid int) {
		_ = running[pid].Process.Kill()
		_ = running[pid].Wait()
		delete(running, pid)
	}
	t.Cleanup(func() {
		for pid := range running {
			kill(pid)
		}
	})
	spawn()
	spawn()
	placed := 0
	for range 5 {
		before, pid := counted(t, s), 0
		tiertest.Eventually(t, patience, func() (bool, string) {
			place(t, w, placed, 20)
			placed += 20
			pid = owner(t, client, running)
			return running[pid] != nil && counted(t, s) > before, "nothing is counted"
		})
		kill(pid)
		spawn()
	}
	_, err = upToDate(t.Context(), client)
	require.NoError(t, err)
	want := []total{{customer: "c0"}, {customer: "c1"}, {customer: "c2"}}
	for i := range placed {
		want[i%3].orders++
		want[i%3].cents += i
	}
	have, err := s.totals(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, have)
}

func counted(t *testing.T, s *store) (n int) {
	list, err := s.totals(t.Context())
	require.NoError(t, err)
	for _, one := range list {
		n += one.orders
	}
	return n
}

// owner is the one of these processes that folds, 0 when none does.
func owner(t *testing.T, client *tier.Client, of map[int]*exec.Cmd) int {
	list, err := projection.List(t.Context(), client, address)
	require.NoError(t, err)
	for _, i := range list {
		for pid := range of {
			if strings.Contains(i.Owner, "-"+strconv.Itoa(pid)+"-") {
				return pid
			}
		}
	}
	return 0
}

// TestFence: what an owner of a lower epoch begins, and what it had begun, changes nothing.
func TestFence(t *testing.T) {
	ctx := t.Context()
	s, err := openStore(ctx, filepath.Join(t.TempDir(), "totals.db"), version)
	require.NoError(t, err)
	defer s.db.Close()
	order := func(total string) *consumer.Delivery {
		d := &consumer.Delivery{}
		d.Key = "ann"
		require.NoError(t, payload.Encode(&d.Message, Order{total}))
		return d
	}
	at, err := s.Begin(ctx, 7)
	require.NoError(t, err)
	require.True(t, at.IsZero())
	first := codec.EntryID{Ms: 1, Seq: 2}
	require.NoError(t, s.Apply(ctx, 7, []*consumer.Delivery{order("1.25"), order("much")}, first))
	at, err = s.Begin(ctx, 8)
	require.NoError(t, err)
	require.Equal(t, first, at)
	require.ErrorIs(t, s.Apply(ctx, 7, []*consumer.Delivery{order("1.25")}, codec.EntryID{Ms: 3}), tier.ErrFenced)
	_, err = s.Begin(ctx, 7)
	require.ErrorIs(t, err, tier.ErrFenced)
	at, err = s.Begin(ctx, 8)
	require.NoError(t, err)
	require.Equal(t, first, at)
	list, err := s.totals(ctx)
	require.NoError(t, err)
	require.Equal(t, []total{{"ann", 1, 125}}, list)
	n, err := s.refused(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// TestDocument: docs/projections.md shows code of this program and of an example of the package, and its commands print what stands below them.
func TestDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/projections.md")
	require.NoError(t, err)
	program, err := os.ReadFile("store.go")
	require.NoError(t, err)
	memory, err := os.ReadFile("../../consumer/projection/example_memory_test.go")
	require.NoError(t, err)
	dir := t.TempDir()
	const build = "go build -C examples/totals -o ../../bin/totals ."
	for _, args := range [][]string{{"-C", "../..", "./cmd/pipeline"}, {"."}} {
		args = slices.Insert(args, len(args)-1, "-o", filepath.Join(dir, "bin")+"/")
		out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	server := tiertest.Private(t, tiertest.Valkey)
	kinds, printed := map[string]int{}, ""
	for _, b := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		switch kinds[b[1]]++; b[1] {
		case "go":
			require.Contains(t, string(program)+string(memory), b[2])
		case "sh":
			cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.ReplaceAll(b[2], build, "true"))
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PIPELINE_URL="+server.URL())
			out, err := cmd.Output()
			require.NoError(t, err, b[2])
			printed += string(out)
		case "text":
			require.Equal(t, b[2], printed)
		}
	}
	require.Equal(t, map[string]int{"go": 3, "sh": 1, "text": 1}, kinds)
	require.ErrorIs(t, run(t.Context(), server.URL(), []string{"close"}), errUsage)
}

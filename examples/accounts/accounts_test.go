package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/stream/aggregate"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The test binary, started again with this in its environment, is a process that makes transfers.
const childEnv = "ACCOUNTS_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(child(text))
	}
	tiertest.Main(m)
}

const (
	accounts  = 10
	cents     = 1000 // in each at first
	processes = 5
	tellers   = 10 // of a process, at once: 50 of all
	transfers = 6  // of a teller
)

// child makes the transfers of its tellers, each until it is known what became of it, and writes a line for each.
func child(text string) int {
	url, name, _ := strings.Cut(text, " ")
	client, err := tier.Dial(context.Background(), url, tier.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer client.Close()
	bank, err := NewBank(client)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var tasks sync.WaitGroup
	for teller := range tellers {
		tasks.Go(func() {
			for i := range transfers {
				transfer(bank, fmt.Sprintf("%s.%d.%d", name, teller, i))
			}
		})
	}
	tasks.Wait()
	return 0
}

// transfer follows from its id: a process that is started again asks for the same ones.
func transfer(bank *Bank, id string) {
	h := fnv.New64()
	h.Write([]byte(id))
	draw := rand.New(rand.NewPCG(h.Sum64(), 0))
	from := draw.IntN(accounts)
	to := (from + 1 + draw.IntN(accounts-1)) % accounts
	amount := 1 + draw.IntN(700)
	for {
		err := bank.Transfer(context.Background(), id, strconv.Itoa(from), strconv.Itoa(to), amount)
		switch {
		case err == nil, errors.Is(err, ErrTooLittle):
			os.Stdout.WriteString(id + "\n")
			return
		case errors.As(err, new(*aggregate.GaveUpError)), tier.OutcomeUnknown(err):
			continue // asked for again
		}
		fmt.Fprintln(os.Stderr, id, err)
		os.Exit(1)
	}
}

// TestConcurrentTransfers: under 50 concurrent transfers, while each process is killed once and replies are lost, the sum is
// constant, no account is ever below zero, both halves of a transfer stand or none, and what is folded from the whole
// history is the live state.
func TestConcurrentTransfers(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			server := tiertest.Private(t, kind)
			client := tiertest.Dial(t, server)
			bank, err := NewBank(client)
			require.NoError(t, err)
			for i := range accounts {
				require.NoError(t, bank.Open(ctx, strconv.Itoa(i), cents))
			}
			var running sync.WaitGroup
			for p := range processes {
				proxy := tiertest.NewProxy(t, server)
				running.Go(func() {
					run := fmt.Sprintf("%s p%d", proxy.URL(), p)
					if err := spawn(ctx, run, 10); err == nil {
						t.Error("it was to be killed")
					}
					proxy.DropReplies(3, func(cmd []string) bool {
						return strings.HasPrefix(cmd[0], "EVAL") && slices.Contains(cmd, "stream:accounts")
					})
					if err := spawn(ctx, run, -1); err != nil {
						t.Error(err)
					}
					if proxy.Dropped() == 0 {
						t.Error("no reply was lost")
					}
				})
			}
			running.Wait()
			audit(t, ctx, client, bank)
		})
	}
}

// spawn runs a child, and kills it after so many transfers, unless that is below 0.
func spawn(ctx context.Context, text string, kill int) error {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+text), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		if n == kill {
			_ = cmd.Process.Kill()
		}
	}
	return cmd.Wait()
}

func audit(t *testing.T, ctx context.Context, client *tier.Client, bank *Bank) {
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "bank/accounts"})
	require.NoError(t, err)
	rebuilt, halves, sum := map[string]Account{}, map[string]int{}, 0
	for record, err := range r.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		a, err := fold(rebuilt[record.Key], record)
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.Cents, 0)
		rebuilt[record.Key] = a
		if e, err := moved.Decode(&record.Message); record.Type != "account.opened" {
			require.NoError(t, err)
			halves[record.Type+" "+e.Transfer]++
		}
	}
	require.Len(t, rebuilt, accounts)
	for key, want := range rebuilt {
		live, err := bank.accounts.Load(ctx, key)
		require.NoError(t, err)
		require.Equal(t, want, live.Value)
		sum += want.Cents
	}
	require.Equal(t, accounts*cents, sum)
	require.Greater(t, len(halves), processes*tellers, "transfers were made")
	for half, n := range halves {
		require.Equal(t, 1, n, half)
		other := strings.NewReplacer("sent", "received", "received", "sent").Replace(half)
		require.Equal(t, 1, halves[other], other)
	}
	require.NoError(t, stream.Check(ctx, client, "bank"))
}

// TestDecisions: what a bank refuses, and an account of an old program.
func TestDecisions(t *testing.T) {
	ctx := t.Context()
	client := tiertest.Dial(t, tiertest.Private(t, tiertest.Valkey))
	bank, err := NewBank(client)
	require.NoError(t, err)
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "bank/accounts", Keyed: true})
	require.NoError(t, err)
	old := codec.Message{Type: "account.opened.euros", Key: "ann"}
	require.NoError(t, codec.Msgpack[map[string]int]().Encode(&old, map[string]int{"Euros": 70}))
	_, err = w.Append(ctx, old)
	require.NoError(t, err)
	require.NoError(t, bank.Open(ctx, "bob", 0))
	require.ErrorIs(t, bank.Open(ctx, "bob", 1), ErrExists)
	require.ErrorIs(t, bank.Transfer(ctx, "1", "bob", "ann", 1), ErrTooLittle)
	require.ErrorIs(t, bank.Transfer(ctx, "2", "ann", "cid", 1), ErrNoAccount)
	require.ErrorIs(t, bank.Transfer(ctx, "3", "ann", "ann", 1), ErrNonsense)
	require.ErrorIs(t, bank.Transfer(ctx, "4", "ann", "bob", -1), ErrNonsense)
	for range 2 {
		require.NoError(t, bank.Transfer(ctx, "5", "ann", "bob", 6999))
	}
	require.ErrorIs(t, bank.Transfer(ctx, "6", "ann", "bob", 2), ErrTooLittle)
	for account, want := range map[string]int{"ann": 1, "bob": 6999} {
		got, err := bank.Balance(ctx, account)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = bank.Balance(ctx, "cid")
	require.ErrorIs(t, err, ErrNoAccount)
}

// TestDocument: docs/event-sourcing.md shows code of this program, and its commands print what stands below them.
func TestDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/event-sourcing.md")
	require.NoError(t, err)
	var program strings.Builder
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasSuffix(file, "_test.go") {
			program.Write(text)
		}
	}
	blocks := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(document), -1)
	server := tiertest.Private(t, tiertest.Valkey)
	binary := filepath.Join(t.TempDir(), "accounts")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	kinds, printed := map[string]int{}, ""
	for _, b := range blocks {
		switch kinds[b[1]]++; b[1] {
		case "go":
			require.Contains(t, program.String(), b[2])
		case "sh":
			cmd := exec.Command("sh", "-euc", strings.ReplaceAll(b[2], "go run ./examples/accounts", binary))
			cmd.Env = append(os.Environ(), "PIPELINE_URL="+server.URL())
			out, err := cmd.Output()
			require.NoError(t, err, b[2])
			printed += string(out)
		case "text":
			require.Equal(t, b[2], printed)
			printed = ""
		}
	}
	require.Equal(t, map[string]int{"go": 5, "sh": 1, "text": 1}, kinds)
	require.ErrorIs(t, run(t.Context(), server.URL(), []string{"close", "ann"}), errUsage)
}

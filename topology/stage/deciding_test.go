package stage_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// accounts is a stage that decides about withdrawals.
func accounts(scope string) stage.Config {
	return stage.Config{
		From: scope + "/in", To: scope + "/out", Lease: duration(1e9),
		Decide: &stage.Decide{
			Key:    "data.account",
			Refuse: `type == "withdraw" && (state?.cents ?? 0) < data.cents ? "has " + string(state?.cents ?? 0) + " of " + string(data.cents) : nil`,
			Events: []stage.Event{
				{When: "state == nil", Type: "'opened'", Data: "{cents: 0}"},
				{When: `type != "close"`, Type: `type == "deposit" ? "received" : "sent"`, Data: "{cents: data.cents}"},
				{When: `type == "close"`, Type: "'closed'"},
			},
			State: `type == "closed" ? nil : {cents: (state?.cents ?? 0) + (type == "sent" ? -1 : 1) * data.cents}`,
		},
	}
}

func command(kind, account string, cents any) codec.Message {
	return codec.Message{Type: kind, Key: "of " + account, Data: fmt.Appendf(nil, `{"account": %q, "cents": %v}`, account, cents)}
}

func told(ms []codec.Message) (all []string) {
	for _, m := range ms {
		all = append(all, m.Key+" "+m.Type+" "+string(m.Data))
	}
	return all
}

// TestDecide: a command is decided on by what the events of its key come to, of those before it in its batch and of those in the log
// alike, and has its events, or is refused with the reason.
func TestDecide(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	cfg := accounts(b.scope)
	b.append("in", command("deposit", "ann", 5), command("withdraw", "ann", 3), command("withdraw", "ann", 3), command("withdraw", "bob", 1),
		command("deposit", "ann", `"much"`), command("deposit", "", 1), codec.Message{Type: stage.WatermarkType})
	log := &logged{}
	stop := b.run("accounts", cfg, stage.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	b.settled("in", "accounts")
	stop()
	require.Equal(t, 1, strings.Count(log.String(), "given up"), "commands may be refused as often as not: %s", log)
	want := []string{
		`ann opened {"cents":0}`, `ann received {"cents":5}`, `ann sent {"cents":3}`, `emq.watermark emq.watermark `,
	}
	require.Equal(t, want, told(b.all("out")))
	letters := b.letters("in", "accounts")
	require.Len(t, letters, 4)
	require.Equal(t, []string{"stage: refused: has 2 of 3", "stage: refused: has 0 of 1"}, letters[:2])
	require.Contains(t, letters[2], "stage: decide.state:", "an event that cannot be folded is none")
	require.Contains(t, letters[3], "the command has no key")

	b.append("in", command("withdraw", "ann", 3), command("deposit", "ann", 1), command("withdraw", "ann", 3), command("close", "ann", 0), command("withdraw", "ann", 1))
	stop = b.run("accounts", cfg, stage.Options{})
	b.settled("in", "accounts")
	stop()
	want = append(want, `ann received {"cents":1}`, `ann sent {"cents":3}`, `ann closed {"account": "ann", "cents": 0}`)
	require.Equal(t, want, told(b.all("out")), "who goes on knows what was decided before")
	require.Equal(t, []string{"stage: refused: has 2 of 3", "stage: refused: has 0 of 1"}, b.letters("in", "accounts")[4:])

	cfg.Decide.State = `{cents: 100 + (state?.cents ?? 0) + data.cents}`
	b.append("in", command("withdraw", "ann", 500))
	b.run("accounts", cfg, stage.Options{})
	b.settled("in", "accounts")
	require.Len(t, b.all("out"), len(want)+1, "folded anew, ann has 600 and more")

	r, err := stream.NewReader(b.client, stream.ReaderConfig{Address: b.address("out")})
	require.NoError(t, err)
	versions := uint64(0)
	for v, err := range r.ReadKey(t.Context(), "ann", 1) {
		require.NoError(t, err)
		versions++
		require.Equal(t, versions, v.Version)
	}
	require.EqualValues(t, 7, versions)
}

// TestKilledDecide: processes that decide are killed while commands come. Each was decided on once, by what all before it had come to
// (B13).
func TestKilledDecide(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	spawn := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", childEnv, b.server.URL(), b.scope), "STAGE_TEST_VERB=decide")
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	balance, refused := map[string]int{}, 0
	var want []string
	const rounds, each = 2, 3000
	for range rounds {
		var ms []codec.Message
		for range each {
			account, cents := fmt.Sprint("a", rand.IntN(300)), 1+rand.IntN(9)
			kind, event := "deposit", "received"
			if rand.IntN(2) == 0 {
				kind, event = "withdraw", "sent"
			}
			ms = append(ms, command(kind, account, cents))
			had, opened := balance[account]
			if kind == "withdraw" && had < cents {
				refused++
				continue
			}
			if !opened {
				want = append(want, account+` opened {"cents":0}`)
			}
			want = append(want, fmt.Sprintf(`%s %s {"cents":%d}`, account, event, cents))
			if kind == "withdraw" {
				cents = -cents
			}
			balance[account] = had + cents
		}
		b.append("in", ms...)
		cmd := spawn()
		tiertest.Eventually(t, patience, func() (bool, string) {
			all, err := stream.Cursors(t.Context(), b.client, b.address("in"))
			return err == nil && len(all) == 1 && all[0].Lag < int64(rand.IntN(each/10)), fmt.Sprint(all, err)
		})
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	spawn()
	b.settled("in", "accounts")
	require.Equal(t, want, told(b.all("out")))
	require.Len(t, b.letters("in", "accounts"), refused)
}

// TestCheckDecide: what cannot be decided is told before it is run.
func TestCheckDecide(t *testing.T) {
	cfg := accounts("s")
	require.Empty(t, cfg.Check())
	cfg.Decide = &stage.Decide{Events: []stage.Event{{Data: "state.x"}}, State: "{at: time}"}
	found := cfg.Check()
	require.Len(t, found, 2)
	require.ErrorContains(t, found[0], "decide.events.0.type: missing")
	require.ErrorContains(t, found[1], "decide.state: an event has no id and no time when it is decided on")
	cfg.Decide = &stage.Decide{}
	require.ErrorContains(t, cfg.Check().Err(), "decide.events: missing")
}

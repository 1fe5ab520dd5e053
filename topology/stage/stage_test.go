package stage_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

func TestStages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  stage.Config
		in   []codec.Message
		want []string
		over []string
		dead []string
	}{
		{
			"filter",
			stage.Config{To: "out", Filter: "data.mag >= 5"},
			[]codec.Message{event("a", `{"mag": 5}`), event("b", `{"mag": 4.9}`), event("c", `{"mag": "5"}`), event("d", `{}`), event("e", `{"mag": 7}`)},
			[]string{`a {"mag": 5}`, `e {"mag": 7}`},
			nil,
			[]string{`stage: filter: "data.mag >= 5": invalid operation: string >= int at 1:10 (data is map)`, `stage: filter: "data.mag >= 5": invalid operation: <nil> >= int at 1:10 (data is map)`},
		},
		{
			"map",
			stage.Config{To: "out", Map: &stage.Map{Data: "{n: data.n + 1, was: key}", Key: "data.n", Type: "'counted'", Headers: map[string]stage.Expr{"h": "key"}}},
			[]codec.Message{event("a", `{"n": 1}`)},
			[]string{`1 {"n":2,"was":"a"}`},
			nil, nil,
		},
		{
			"key_by",
			stage.Config{To: "out", KeyBy: "data.who"},
			[]codec.Message{event("a", `{"who": "ann"}`), event("a", `{"who": []}`), event("a", `{"who": "`+strings.Repeat("x", 1025)+`"}`)},
			[]string{`ann {"who": "ann"}`},
			nil,
			[]string{`stage: key_by: "data.who": is array, want a text or a number (data is map)`, `stage: key_by: "data.who": has 1025 bytes, want 1024 at most (data is map)`},
		},
		{
			"route",
			stage.Config{Route: []stage.Route{{When: "data > 5", To: "out"}, {When: "data > 2", To: "over"}}},
			[]codec.Message{event("a", `7`), event("a", `3`), event("a", `1`)},
			[]string{"a 7"},
			[]string{"a 3"},
			nil,
		},
		{
			"dedupe",
			stage.Config{To: "out", Dedupe: &stage.Dedupe{Key: "data.id", Within: duration(time.Hour)}},
			[]codec.Message{event("a", `{"id": 1}`), event("b", `{"id": 1}`), event("c", `{"id": 2}`), event("d", `{"id": 1}`)},
			[]string{`a {"id": 1}`, `c {"id": 2}`},
			nil, nil,
		},
		{
			"dedupe remembers as many as it may",
			stage.Config{To: "out", Dedupe: &stage.Dedupe{Key: "data", Within: duration(time.Hour), MaxKeys: 2}},
			[]codec.Message{event("a", `1`), event("a", `2`), event("a", `1`), event("a", `3`), event("a", `3`), event("a", `1`)},
			[]string{"a 1", "a 2", "a 3", "a 1"},
			nil, nil,
		},
		{
			"throttle",
			stage.Config{To: "out", Throttle: &stage.Throttle{Count: 2, Per: duration(time.Hour), Key: "key", Over: "over"}},
			[]codec.Message{event("a", `1`), event("a", `2`), event("a", `3`), event("b", `4`)},
			[]string{"a 1", "a 2", "b 4"},
			[]string{"a 3"},
			nil,
		},
		{
			"batch",
			stage.Config{To: "out", Batch: &stage.Batch{Size: 2}},
			[]codec.Message{event("a", `1`), event("b", `{"x": 2}`), event("a", `text`), event("a", `3`), {Type: stage.WatermarkType}},
			[]string{`a [1,"text"]`, `a [3]`, `b [{"x":2}]`, "emq.watermark "},
			nil, nil,
		},
		{
			"window",
			stage.Config{To: "out", Window: &stage.Window{Tumbling: duration(time.Hour), Time: "data.t", Key: "data.k ?? key", Values: map[string]stage.Aggregate{"n": {Count: true}}}},
			[]codec.Message{event("a", `{"t": 0}`), event("x", `{"t": 0, "k": "`+strings.Repeat("x", 1025)+`"}`), event("a", `{"t": 1}`), event("b", `{"t": 3600000}`), event("c", `{}`)},
			[]string{`a {"end":"1970-01-01T01:00:00Z","key":"a","n":2,"start":"1970-01-01T00:00:00Z"}`},
			nil,
			[]string{`stage: window.key: "data.k ?? key": has 1025 bytes, want 1024 at most (data is map)`, `stage: window.time: "data.t": is nil, want a time, a text as 2006-01-02T15:04:05Z or Unix milliseconds (data is map)`},
		},
	}
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, server)
				cfg := tt.cfg
				cfg.From = b.address("in")
				place := func(name *string) {
					if *name != "" {
						*name = b.address(*name)
					}
				}
				place(&cfg.To)
				cfg.Route = append([]stage.Route(nil), cfg.Route...)
				for i := range cfg.Route {
					place(&cfg.Route[i].To)
				}
				if cfg.Throttle != nil {
					throttle := *cfg.Throttle
					cfg.Throttle = &throttle
					place(&throttle.Over)
				}
				b.append("in", tt.in...)
				b.run("verb", cfg, stage.Options{})
				b.settled("in", "verb")
				require.Equal(t, tt.want, data(b.all("out")))
				if tt.over != nil {
					require.Equal(t, tt.over, data(b.all("over")))
				}
				require.Equal(t, tt.dead, b.letters("in", "verb"))
			})
		}
	})
}

// TestManyWindows: one message closes as many windows as are open, and each has its result.
func TestManyWindows(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		b := newBench(t, server)
		const many = consumer.MaxOutputs + 100
		var ms []codec.Message
		for i := range many {
			ms = append(ms, event(fmt.Sprint("k", i), "1"))
		}
		b.append("in", append(ms, codec.Message{Type: stage.WatermarkType})...)
		b.run("hours", stage.Config{From: b.address("in"), To: b.address("out"), Window: &stage.Window{Tumbling: duration(time.Hour), Time: "data", Values: map[string]stage.Aggregate{"n": {Count: true}}}}, stage.Options{})
		b.settled("in", "hours")
		require.Empty(t, b.letters("in", "hours"))
		require.Len(t, b.all("out"), many+1)
	})
}

// TestLongKeys: what is remembered of a key has an end, and the key counts whole.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	long := strings.Repeat("x", 100_000)
	b.append("in", event("a", long), event("b", long+"y"), event("c", long))
	b.run("once", stage.Config{From: b.address("in"), To: b.address("out"), Dedupe: &stage.Dedupe{Key: "data", Within: duration(time.Hour)}}, stage.Options{})
	b.settled("in", "once")
	require.Len(t, b.all("out"), 2)
	state, err := b.client.StateAll(t.Context(), b.scope, "stage.once")
	require.NoError(t, err)
	require.Len(t, state, 3)
	for id := range state {
		require.Less(t, len(id), 300)
	}
}

// TestLargeOutputs: small messages that make large ones are committed a part at a time.
func TestLargeOutputs(t *testing.T) {
	t.Parallel()
	batch := make([]consumer.Delivery, 100)
	for i := range batch {
		batch[i].Record = codec.Record{ID: codec.ID{1}, Addr: codec.EntryID{Ms: uint64(i + 1)}, Message: event("a", `"`+strings.Repeat("x", 1<<20)+`"`)}
		batch[i].Position.Entry = batch[i].Addr
	}
	failed := (*projection.MessageError)(nil)
	require.ErrorAs(t, stage.Handle(stage.Config{From: "s/in", To: "s/out", Filter: "true"}, batch), &failed)
	require.Equal(t, 7, failed.Index, "of 1 MiB each, and what is around it")
	verdict, pause := consumer.VerdictOf(failed)
	require.Equal(t, consumer.VerdictSnooze, verdict)
	require.Zero(t, pause)
	require.NoError(t, stage.Handle(stage.Config{From: "s/in", To: "s/out", Filter: "true"}, batch[:7]))
	for i := range batch {
		batch[i].Position.Entry = batch[0].Addr
	}
	require.NoError(t, stage.Handle(stage.Config{From: "s/in", To: "s/out", Filter: "true"}, batch), "an entry is not divided")
}

// TestRedriven: a dead letter that is redriven is decided on again, by the declaration that there is then (B114).
func TestRedriven(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	b.append("in", event("a", `{"mag": "5"}`), event("b", `{"mag": 6}`))
	cfg := stage.Config{From: b.address("in"), To: b.address("out"), Filter: "data.mag >= 5"}
	stop := b.run("big", cfg, stage.Options{})
	b.settled("in", "big")
	stop()
	require.Len(t, b.letters("in", "big"), 1)
	cfg.Filter = "float(data.mag) >= 5"
	b.run("big", cfg, stage.Options{})
	var ids []codec.EntryID
	for l, err := range stream.DeadLetters(t.Context(), b.client, b.address("in"), "big") {
		require.NoError(t, err)
		ids = append(ids, l.ID)
	}
	_, err := stream.Redrive(t.Context(), b.client, b.address("in"), "big", ids)
	require.NoError(t, err)
	tiertest.Eventually(t, patience, func() (bool, string) {
		got := data(b.all("out"))
		return len(got) == 2, fmt.Sprint(got)
	})
	require.Equal(t, []string{`b {"mag": 6}`, `a {"mag": "5"}`}, data(b.all("out")))
}

// TestKilledWindows: processes that run a window are killed while messages come, and each message counts once: the results are
// those of an addition without any stage (B13).
func TestKilledWindows(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	spawn := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", childEnv, b.server.URL(), b.scope))
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	type key struct {
		key   string
		start int
	}
	n, sum := map[key]int{}, map[key]int{}
	const rounds, each = 4, 5000
	for round := range rounds {
		var ms []codec.Message
		for i := range each {
			at := (round*each+i)*5 - rand.IntN(300)
			k := key{fmt.Sprint("k", rand.IntN(7)), max(0, at) / 1000}
			n[k]++
			sum[k] += i
			ms = append(ms, event(k.key, fmt.Sprintf(`{"t": %d, "v": %d}`, max(0, at), i)))
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
	b.append("in", codec.Message{Type: stage.WatermarkType})
	spawn()
	b.settled("in", "seconds")
	for _, m := range b.all("out") {
		if m.Type == stage.WatermarkType {
			continue
		}
		var got struct {
			Start  time.Time
			N, Sum int
		}
		require.NoError(t, json.Unmarshal(m.Data, &got))
		k := key{m.Key, int(got.Start.Unix())}
		require.Equal(t, n[k], got.N, "%v", k)
		require.Equal(t, sum[k], got.Sum, "%v", k)
		delete(n, k)
	}
	require.Empty(t, n, "windows that were not told")
	state, err := b.client.StateAll(t.Context(), b.scope, "stage.seconds")
	require.NoError(t, err)
	require.Len(t, state, 1, "what is closed is not kept")
}

// TestAnotherWindow: what another declaration left open is not added to.
func TestAnotherWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	b.append("in", event("a", `1`))
	cfg := stage.Config{From: b.address("in"), To: b.address("out"), Window: &stage.Window{Tumbling: duration(time.Hour), Values: map[string]stage.Aggregate{"n": {Count: true}}}}
	stop := b.run("hours", cfg, stage.Options{})
	b.settled("in", "hours")
	stop()
	b.append("in", event("a", `1`))
	other := *cfg.Window
	other.Tumbling = duration(time.Minute)
	cfg.Window = &other
	s, err := stage.New(b.client, "hours", cfg, stage.Options{})
	require.NoError(t, err)
	require.ErrorAs(t, s.Run(t.Context()), new(*stage.ShapeError))
	_, err = b.client.DeleteStates(t.Context(), b.scope, "stage.hours")
	require.NoError(t, err)
	s, err = stage.New(b.client, "hours", cfg, stage.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(t.Context()), "was deleted by somebody")
}

// TestAhead: what is written with a batch is the same when the one before it is not committed yet, and when it is handled again.
func TestAhead(t *testing.T) {
	t.Parallel()
	var batches [][]consumer.Delivery
	for n := range 60 {
		if n%6 == 0 {
			batches = append(batches, nil)
		}
		kind := "deposit"
		if n%3 == 2 {
			kind = "withdraw"
		}
		at := codec.EntryID{Ms: uint64(1700000000000 + 10*n)}
		m := codec.Message{Key: fmt.Sprint("k", n*7/3%4), Type: kind, Data: fmt.Appendf(nil, `{"account": "a%d", "cents": %d, "v": %d}`, n*7/4%5, n*7%11, n)}
		last := len(batches) - 1
		batches[last] = append(batches[last], consumer.Delivery{Record: codec.Record{ID: codec.ID{1}, Position: codec.Position{Entry: at}, Addr: at, Message: m}})
	}
	decide := accounts("s")
	for _, c := range []struct {
		name string
		cfg  stage.Config
	}{
		{"dedupe", stage.Config{Dedupe: &stage.Dedupe{Key: "key", Within: duration(90 * time.Millisecond)}}},
		{"dedupe of few", stage.Config{Dedupe: &stage.Dedupe{Key: "data.account", Within: duration(time.Minute), MaxKeys: 2}}},
		{"throttle", stage.Config{Throttle: &stage.Throttle{Key: "key", Count: 2, Per: duration(90 * time.Millisecond)}}},
		{"batch", stage.Config{Batch: &stage.Batch{Key: "key", Size: 4, Within: duration(150 * time.Millisecond)}}},
		{"window", stage.Config{Window: &stage.Window{
			Tumbling: duration(70 * time.Millisecond), Lateness: duration(20 * time.Millisecond), Values: map[string]stage.Aggregate{"n": {Count: true}, "sum": {Sum: "data.v"}},
		}}},
		{"session", stage.Config{Window: &stage.Window{Session: duration(30 * time.Millisecond), Key: "key", Values: map[string]stage.Aggregate{"n": {Count: true}}}}},
		{"decide", stage.Config{Decide: decide.Decide}},
	} {
		c.cfg.From, c.cfg.To = "s/in", "s/out"
		want, err := stage.Effects(c.cfg, "one by one", batches)
		require.NoError(t, err, c.name)
		require.NotEmpty(t, slices.Concat(want[2:]...), c.name)
		for _, how := range []string{"ahead", "again"} {
			have, err := stage.Effects(c.cfg, how, batches)
			require.NoError(t, err, c.name)
			require.Equal(t, want, have, "%s, %s", c.name, how)
		}
	}
}

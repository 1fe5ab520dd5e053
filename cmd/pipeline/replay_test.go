package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// written appends messages of all sorts to a stream, some of them in a pack, and a foreign entry behind them.
func written(t testing.TB, addr string, ms []codec.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client := tiertest.Dial(t, shared)
	for i, some := range [][]codec.Message{ms[:3], ms[3:]} {
		w, err := stream.NewWriter(client, stream.WriterConfig{Address: addr, Pack: 1 + 99*i})
		require.NoError(t, err)
		_, err = w.AppendBatch(ctx, some)
		require.NoError(t, err)
	}
	raw(t, shared, "XADD", logKey(t, addr), "*", "temperature", "21")
}

// read are the messages of a stream, without those that hold none.
func read(t testing.TB, addr string) (ms []codec.Message) {
	t.Helper()
	r, err := stream.NewReader(tiertest.Dial(t, shared), stream.ReaderConfig{Address: addr})
	require.NoError(t, err)
	for record, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		if !record.Foreign() {
			ms = append(ms, record.Message)
		}
	}
	return ms
}

func ofAllSorts(t testing.TB) []codec.Message {
	t.Helper()
	var value codec.Message
	require.NoError(t, codec.Msgpack[map[string]any]().Encode(&value, map[string]any{"n": 1 << 40}))
	var odd codec.Message
	require.NoError(t, codec.Msgpack[[]any]().Encode(&odd, []any{time.Now(), []byte{0xff}, 2.0, -7, "x"}))
	typed := func(kind string, data []byte) codec.Message {
		return codec.Message{Type: "é", Key: "k\"", Headers: codec.Headers{{Key: "z", Value: "1"}, {Key: codec.HeaderContentType, Value: kind}, {Key: "a", Value: "\n"}}, Data: data}
	}
	return []codec.Message{
		typed("application/json", []byte(`{"b":1.50,"a":[]}`)),
		typed("text/plain", []byte("a\n\"b\"")), typed("text/plain", []byte{0xff}), typed("text/plain", []byte{}),
		value, odd,
		{Type: "none", Data: []byte{}},
		{Data: []byte(`{"x":1}`)},
		typed("image/png", []byte{0, 1, 2}),
		{Format: codec.FormatMsgpack, Data: []byte{0xc0}},
		{Format: codec.FormatMsgpack, Data: []byte{0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0}},
	}
}

// TestExportAndImport: what was exported comes back as it was, and once, however often it is imported.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	p, from := onShared(t), scope(t)+"/from"
	want := ofAllSorts(t)
	written(t, from, want)
	require.Equal(t, want, read(t, from))
	p.ok("replay", from, "--out", "x.jsonl")
	to := scope(t) + "/to"
	for range 2 {
		r := p.ok("import", "x.jsonl", to)
		require.Contains(t, r.errOut, "1 line left out: foreign or undecodable")
		require.Equal(t, want, read(t, to))
	}
	p.ok("import", "x.jsonl", to, "--producer", "another", "--pack", "7", "--compress")
	require.Equal(t, append(want, want...), read(t, to))
}

// TestExportParquet: as TestExportAndImport; a file that is there is not touched, one that is interrupted is not there, and a segment of an
// archive, with its packs, is read as well.
func TestExportParquet(t *testing.T) {
	t.Parallel()
	p, from := onShared(t), scope(t)+"/from"
	want := ofAllSorts(t)
	written(t, from, want)
	p.ok("replay", from, "--out", "x.parquet")
	to := scope(t) + "/to"
	for range 2 {
		require.Contains(t, p.ok("import", "x.parquet", to).errOut, "1 line left out: foreign or undecodable")
		require.Equal(t, want, read(t, to))
	}
	require.Contains(t, p.run("replay", from, "--out", "x.parquet").errOut, "it is there")
	p.ok("replay", from, "--type", "none", "--out", "none.parquet")
	p.ok("import", "none.parquet", to)
	p.ok("replay", from, "--type", "absent", "--out", "empty.parquet")
	require.Contains(t, p.ok("import", "empty.parquet", to).errOut, "0 messages")
	require.Equal(t, append(want, codec.Message{Type: "none", Data: []byte{}}), read(t, to))

	store := t.TempDir()
	p.ok("retention", "set", from, "--max-length", "1000", "--archive", "file://"+store)
	p.ok("archive", "run", from, "--settle", "1ms")
	segments, err := filepath.Glob(filepath.Join(store, "*", "*", "segments", "*.parquet"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	again := scope(t) + "/again"
	p.ok("import", segments[0], again)
	require.Equal(t, want, read(t, again))

	running := p.start("replay", from, "--rate", "1", "--out", "cut.parquet")
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		_, err := os.Stat(filepath.Join(p.dir, "cut.parquet.part"))
		return err == nil, "nothing is written"
	})
	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.NoFileExists(t, filepath.Join(p.dir, "cut.parquet"))
	require.NoFileExists(t, filepath.Join(p.dir, "cut.parquet.part"))

	whole, err := os.ReadFile(filepath.Join(p.dir, "x.parquet"))
	require.NoError(t, err)
	for name, bad := range map[string][]byte{"cut": whole[:len(whole)/2], "text": []byte("no parquet"), "empty": nil} {
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, "bad.parquet"), bad, 0o600))
		r := p.run("import", "bad.parquet", scope(t)+"/bad")
		require.NotZero(t, r.code, name)
		require.Contains(t, r.errOut, "bad.parquet", name)
	}
}

// TestExportGoesOn: a file that ends anywhere is gone on with to what it would have been.
func TestExportGoesOn(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/from"
	written(t, addr, ofAllSorts(t))
	p.ok("replay", addr, "--out", "x.jsonl")
	name := filepath.Join(p.dir, "x.jsonl")
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for i := range lines {
		for _, torn := range []int{0, 1, len(lines[i]) - 1} {
			if torn < 0 || i == len(lines)-1 && torn > 0 {
				continue
			}
			cut := append(bytes.Join(lines[:i], nil), lines[i][:torn]...)
			require.NoError(t, os.WriteFile(name, cut, 0o600))
			p.ok("replay", addr, "--out", "x.jsonl")
			got, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, string(whole), string(got), "cut at %d and %d", i, torn)
		}
	}
	for _, other := range []string{"hello", "a,b\n1,2\n", "{\"id\":\"\"}\n", "\n"} {
		require.NoError(t, os.WriteFile(name, []byte(other), 0o600))
		r := p.run("replay", addr, "--out", "x.jsonl")
		require.Equal(t, 2, r.code, "%q", other)
		require.Contains(t, r.errOut, "holds something else than messages with their ids")
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, other, string(got))
	}
	another := scope(t) + "/zebras"
	p.given("1\n").ok("produce", another)
	require.NoError(t, os.WriteFile(name, bytes.Join(lines[:len(lines)-2], nil), 0o600)) // without the foreign entry, which has no id
	r := p.run("replay", another, "--out", "x.jsonl")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "is not of "+another)
}

// TestReplayToStream: interrupted by Ctrl-C and by a kill, each message is appended once, in order, and says whom it repeats.
func TestReplayToStream(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	from, to := numbers(t, p, 40), scope(t)+"/copy"
	args := []string{"replay", from, "--to-stream", to, "--rate", "50"}
	for _, kill := range []bool{false, true} {
		before := 0
		if kill {
			before = len(read(t, to))
		}
		running := p.start(args...)
		tiertest.Eventually(t, limit/2, func() (bool, string) {
			r := p.run("range", to, "--count")
			n, _ := strconv.Atoi(strings.TrimSpace(r.out))
			return n > before, "nothing comes: " + r.errOut
		})
		if kill {
			require.NoError(t, running.cmd.Process.Kill())
			_ = running.cmd.Wait()
		} else {
			r := running.interrupted()
			require.Equal(t, 130, r.code, r.errOut)
		}
		require.Less(t, len(read(t, to)), 40)
	}
	p.ok("replay", from, "--to-stream", to)
	require.Equal(t, quoted(1, 40), data(t, p.ok("range", to)))
	var ids []string
	for _, m := range messages(t, p.ok("range", from)) {
		ids = append(ids, m.ID)
	}
	var of []string
	for _, m := range messages(t, p.ok("range", to)) {
		of = append(of, m.Headers[codec.HeaderReplayOf])
	}
	require.Equal(t, ids, of)
	require.Contains(t, p.ok("replay", from, "--to-stream", to).errOut, "was not appended again")
	keyed := scope(t) + "/keyed"
	p.given(`{"k":"a"}`).ok("produce", keyed, "--format", "json", "--key", "k", "--keyed")
	p.ok("replay", keyed, "--to-stream", scope(t)+"/plain")
	p.ok("replay", keyed, "--to-stream", keyed+"2")
	p.given(`{"k":"b"}`).ok("produce", keyed+"3", "--format", "json", "--key", "k", "--keyed")
	p.ok("replay", keyed, "--to-stream", keyed+"3")
	require.Len(t, p.ok("range", keyed+"3", "--key", "a").lines(), 1)
}

// TestReplayExec: each message goes to the command, in order, marked; one that fails ends it, and it says where to go on.
func TestReplayExec(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 12, "--pack", "4")
	command := `sh -c 'cat >> got; test "$PIPELINE_REPLAY" = 1 && ! tail -n 1 got | grep -q "\"data\":\"7\""'`
	r := p.run("replay", addr, "--exec", command)
	require.Equal(t, 1, r.code)
	next := r.errOut[strings.Index(r.errOut, "pipeline replay "+addr+" --from ")+len("pipeline replay "+addr+" --from "):]
	next, again, _ := strings.Cut(next[:strings.IndexByte(next, '\n')], " ")
	require.Equal(t, "--exec '"+strings.ReplaceAll(command, "'", `'\''`)+"'", again)
	p.ok("replay", addr, "--from", next, "--exec", "sh -c 'cat >> got'")
	got, err := os.ReadFile(filepath.Join(p.dir, "got"))
	require.NoError(t, err)
	require.Equal(t, append(quoted(1, 7), quoted(7, 12)...), data(t, result{out: string(got)}), "the seventh failed, and came again")
}

// TestReplayChooses: by window, type and key; printed as range does, or counted.
func TestReplayChooses(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/sold"
	for i, kind := range []string{"a", "b", "a"} {
		p.given(fmt.Sprintf(`{"k":"x"}%s{"k":"y%d"}`, "\n", i)).ok("produce", addr, "--format", "json", "--key", "k", "--type", kind)
	}
	all := messages(t, p.ok("range", addr))
	require.Equal(t, all, messages(t, p.ok("replay", addr)))
	require.Equal(t, all[2:5], messages(t, p.ok("replay", addr, "--from", all[2].ID, "--to", all[4].Entry)))
	require.Equal(t, all[2:4], messages(t, p.ok("replay", addr, "--type", "b")))
	require.Len(t, messages(t, p.ok("replay", addr, "--type", "b", "--type", "a", "--key", "x", "--key", "y2", "--speed", "100x")), 4)
	var counted struct {
		Messages    int
		First, Last string
		Seconds     float64
	}
	r := p.ok("replay", addr, "--key", "x", "--rate", "2", "--dry-run", "--out", "none.jsonl")
	require.NoError(t, json.Unmarshal([]byte(r.out), &counted))
	require.Equal(t, 3, counted.Messages)
	require.Equal(t, all[0].Entry, counted.First)
	require.Equal(t, all[4].Entry, counted.Last)
	require.Equal(t, 1.0, counted.Seconds)
	require.NoFileExists(t, filepath.Join(p.dir, "none.jsonl"))
	require.Contains(t, p.ok("replay", addr, "--dry-run", "--output", "text").out, "6 messages of "+addr)
	require.Equal(t, 3, p.run("replay", scope(t)+"/none").code)
}

// TestReplayPartitions: all of them in the order of their ids, except into streams.
func TestReplayPartitions(t *testing.T) {
	t.Parallel()
	p, name := onShared(t), scope(t)
	p.ok("scope", "partition", name, "--count", "3")
	addr := name + "/orders"
	p.given("{\"k\":1}\n{\"k\":2}\n{\"k\":3}\n{\"k\":4}").ok("produce", addr, "--format", "json", "--key", "k")
	require.Equal(t, p.ok("range", addr).out, p.ok("replay", addr).out)
	r := p.run("replay", addr, "--to-stream", scope(t)+"/copy")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "replay one after another, as in "+addr+"@0")
}

// TestImportRefuses: a file that is none, and one whose ids do not ascend; corrected, it is gone on with.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	from, to := numbers(t, p, 5), scope(t)+"/to"
	good := p.ok("range", from).lines()
	p.file("x.jsonl", strings.Join([]string{good[0], good[1], "{", good[2]}, "\n"))
	r := p.run("import", "x.jsonl", to)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "x.jsonl:3: not JSON")
	require.Equal(t, quoted(1, 2), data(t, p.ok("range", to)))
	p.file("x.jsonl", strings.Join([]string{good[0], good[1], good[2], good[4], good[3]}, "\n"))
	r = p.run("import", "x.jsonl", to)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "x.jsonl:5: the id "+messages(t, result{out: good[3]})[0].ID+" is not above the one before it")
	p.file("x.csv", "type,id,data,headers\nt,EVT000xY9Wvvcd,\"a\nb\",\"{\"\"a\"\":\"\"b\"\"}\"\n")
	to = scope(t) + "/csv"
	p.ok("import", "x.csv", to)
	require.Equal(t, []codec.Message{{Type: "t", Headers: codec.Headers{{Key: "a", Value: "b"}}, Data: []byte("a\nb")}}, read(t, to))
}

// TestArchivedHistory: what lies in the archive that the policy names is read as if it were in the stream.
func TestArchivedHistory(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 40, "--pack", "5")
	want := p.ok("range", addr).out
	first := messages(t, p.ok("range", addr, "--limit", "1"))[0]
	client := tiertest.Dial(t, shared)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, stream.SetRetention(ctx, client, addr, stream.Retention{MaxLength: 2, Exact: true, Archive: "file://" + p.dir + "/archive", SegmentAge: time.Millisecond}))
	sw, err := retention.NewSweeper(client, retention.SweeperConfig{Scope: strings.TrimSuffix(addr, "/numbers"), Settle: time.Millisecond, Beat: 10 * time.Millisecond})
	require.NoError(t, err)
	sweeping, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- sw.Run(sweeping) }()
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		h, err := stream.HoldingsOf(ctx, client, addr)
		return err == nil && h.Length == 2, fmt.Sprint(h.Length, err)
	})
	stop()
	require.NoError(t, <-done)
	require.Equal(t, want, p.ok("range", addr).out)
	require.Equal(t, want, p.ok("replay", addr).out)
	require.Equal(t, want, p.ok("range", addr, "--from", first.Entry).out)
	require.Equal(t, want, p.ok("range", addr, "--from", first.ID).out)
	require.Equal(t, quoted(1, 40), data(t, p.ok("replay", addr, "--from", "1h")))
	require.Equal(t, "40\n", p.ok("range", addr, "--count", "--from", "2020-01-01").out)
}

// TestHydrate: a hash has the newest value of each key, of a window and of all, in whichever order.
func TestHydrate(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/orders"
	p.given(`{"k":"a","n":1}
{"k":"b","n":2}`).ok("produce", addr, "--format", "json", "--key", "k")
	p.given(`{"k":"a","n":3}`).ok("produce", addr, "--format", "json", "--key", "k")
	last := messages(t, p.ok("tail", addr, "-n", "1"))[0]
	key := tier.StateKey(strings.TrimSuffix(addr, "/orders"), "latest")
	p.ok("hydrate", addr, "--into", "latest", "--from", last.ID)
	require.Contains(t, raw(t, shared, "HGET", key, "a"), "3")
	r := p.ok("hydrate", addr, "--into", "latest", "--output", "json")
	require.Contains(t, r.out, `"messages":3,"keyless":0,"written":1`)
	require.Contains(t, raw(t, shared, "HGET", key, "a"), "3")
	require.Contains(t, raw(t, shared, "HGET", key, "b"), "2")
}

package stream_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// once calls AppendOnce with a window of an hour; the message's key is the call's.
func (f *fixture) once(w *stream.Writer, key string) (codec.ID, bool) {
	f.t.Helper()
	id, fresh, err := w.AppendOnce(f.ctx, key, time.Hour, codec.Message{Key: key})
	require.NoError(f.t, err)
	return id, fresh
}

// TestAppendOnce: within its window a key appends once, whichever writer calls, and each call is told the id; the window
// is the server's, and begins with the append.
func TestAppendOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		reg := prometheus.NewRegistry()
		w, packs := f.writer(stream.WriterConfig{Registerer: reg}), f.writer(stream.WriterConfig{Pack: 10})
		want := f.append(packs, 25)
		keys := []string{"a", "b", "\x00{x}:\xff", strings.Repeat("long", 10_000)[:700]}
		for _, key := range keys {
			id, fresh := f.once(w, key)
			require.True(t, fresh)
			want = append(want, id)
			want = append(want, f.append(packs, 5)...)
			for _, again := range []*stream.Writer{w, packs, f.writer(stream.WriterConfig{})} {
				same, fresh := f.once(again, key)
				require.False(t, fresh)
				require.Equal(t, id, same)
			}
			left, err := strconv.Atoi(f.text("PTTL", f.addr().SeenKey(key)))
			require.NoError(t, err)
			require.InDelta(t, (time.Hour + 10*time.Minute).Milliseconds(), left, 120_000)
		}
		all := f.all()
		requireAscending(t, all)
		require.Equal(t, want, idsOf(all))
		require.EqualValues(t, len(keys), f.metric("append_duplicates_total", reg))
		require.EqualValues(t, len(keys), f.metric("appended_messages_total", reg))

		// A duplicate does not prolong the window, and after it the key is new.
		seen := f.addr().SeenKey("a")
		mark := f.text("GET", seen)
		f.once(w, "a")
		require.Equal(t, mark, f.text("GET", seen))
		parts := strings.Fields(strings.TrimSuffix(mark, ";"))
		until, err := strconv.ParseInt(parts[2], 10, 64)
		require.NoError(t, err)
		require.WithinDuration(t, f.now().Add(time.Hour), time.UnixMilli(until), 2*time.Minute)
		f.do("SET", seen, fmt.Sprintf("%s %s %d;", parts[0], parts[1], f.now().UnixMilli()))
		id, fresh := f.once(w, "a")
		require.True(t, fresh)
		require.Equal(t, id, f.all()[len(want)].ID)
	})
}

// TestAppendOnceAtOnce: of many that append under one key at the same time, while others append, one is fresh.
func TestAppendOnceAtOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		writers := []*stream.Writer{f.writer(stream.WriterConfig{}), f.writer(stream.WriterConfig{Pack: 3})}
		var fresh [20]atomic.Int64
		ids := make([][]codec.ID, len(fresh))
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				w := writers[g%2]
				for key := range fresh {
					id, first, err := w.AppendOnce(f.ctx, fmt.Sprint(key), time.Hour, codec.Message{Key: fmt.Sprint(key)})
					if err != nil {
						t.Error(err)
						return
					}
					if first {
						fresh[key].Add(1)
					}
					mu.Lock()
					ids[key] = append(ids[key], id)
					mu.Unlock()
					if _, err := w.Append(f.ctx, codec.Message{Key: "other"}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		byKey := map[string][]codec.ID{}
		all := f.all()
		requireAscending(t, all)
		for _, r := range all {
			byKey[r.Key] = append(byKey[r.Key], r.ID)
		}
		require.Len(t, byKey["other"], 8*len(fresh))
		for key := range fresh {
			require.EqualValues(t, 1, fresh[key].Load())
			require.Len(t, ids[key], 8)
			require.Len(t, byKey[fmt.Sprint(key)], 1)
			for _, id := range ids[key] {
				require.Equal(t, byKey[fmt.Sprint(key)][0], id)
			}
		}
	})
}

// TestAppendOnceAheadOfTheClock (B90): ids are legal and above all that there were, with the top ahead of the clock and
// at the end of its millisecond, and after the log was lost.
func TestAppendOnceAheadOfTheClock(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		want := f.append(w, 1)
		at := f.now().Add(time.Hour).UnixMilli()
		for i, seq := range []string{"0", "4093", "4094", "4095", "4096", "18446744073709551615"} {
			f.do("XSETID", f.log(), fmt.Sprintf("%d-%s", at+int64(10*i), seq))
			for n := range 3 {
				id, fresh := f.once(w, fmt.Sprint(i, n))
				require.True(t, fresh)
				want = append(want, id)
			}
			want = append(want, f.append(w, 2)...)
		}
		all := f.all()
		requireAscending(t, all)
		require.Equal(t, want, idsOf(all))
		list, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.Equal(t, list[0].Length, list[0].Added, "an entry that was taken back counts")

		f.do("XSETID", f.log(), fmt.Sprintf("%d-4094", at+500))
		f.once(w, "ends on the last sequence")
		require.Equal(t, fmt.Sprintf("%d-1", at+501), f.text("XADD", f.log(), "*", "m", encoded(t, "of another program")))
		f.do("XSETID", f.log(), fmt.Sprintf("%d-4095", at+1000))
		last, _ := f.once(w, "last")
		f.do("DEL", f.log())
		id, fresh := f.once(w, "lost")
		require.True(t, fresh)
		require.Less(t, last.String(), id.String())
		require.Less(t, id.String(), f.append(w, 1)[0].String())
	})
}

// TestAppendOnceRefused (B72): a removed stream, and one whose ids are at their end, take nothing and mark nothing.
func TestAppendOnceRefused(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		f.append(w, 1)
		refuses := func(want error) {
			t.Helper()
			before := f.length()
			_, _, err := w.AppendOnce(f.ctx, "k", time.Hour, codec.Message{})
			require.ErrorIs(t, err, want)
			require.False(t, tier.OutcomeUnknown(err))
			require.Equal(t, before, f.length())
			require.Equal(t, "0", f.text("EXISTS", f.addr().SeenKey("k")))
		}
		for _, top := range []string{"3903090455550-1", "4000000000000-1", "18446744073709551615-18446744073709551615"} {
			f.do("XSETID", f.log(), top)
			refuses(stream.ErrIDSpace)
		}
		f.do("DEL", f.log())
		f.once(w, "again")
		key := tier.ScopeKey(f.addr().Scope)
		brand := f.text("HGET", key, "stream:orders")
		f.do("HSET", key, "stream:orders", "-"+brand)
		refuses(stream.ErrStreamRemoved)
		f.do("HSET", key, "stream:orders", brand)
		_, fresh := f.once(w, "again")
		require.False(t, fresh)

		for _, tt := range []struct {
			key    string
			window time.Duration
			cfg    stream.WriterConfig
		}{
			{"", time.Hour, stream.WriterConfig{}},
			{"k", stream.MinWindow - 1, stream.WriterConfig{}},
			{"k", stream.MaxWindow + 1, stream.WriterConfig{}},
			{"k", time.Hour, stream.WriterConfig{Producer: "p"}},
			{"k", time.Hour, stream.WriterConfig{Exclusive: true, Mint: &scripted{}}},
		} {
			_, _, err := f.writer(tt.cfg).AppendOnce(f.ctx, tt.key, tt.window, codec.Message{})
			require.ErrorIs(t, err, stream.ErrBadCall)
		}
		_, _, err := w.AppendOnce(f.ctx, "k", time.Hour, codec.Message{Data: make([]byte, 2<<20)})
		require.ErrorAs(t, err, new(*stream.TooLargeError))
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, _, err = w.AppendOnce(ctx, "k", time.Hour, codec.Message{})
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, tier.OutcomeUnknown(err))
	})
}

// TestAppendOnceFlushed: a server that has lost everything takes the key again, under the same brand.
func TestAppendOnceFlushed(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{Brand: "XYZ"})
	before, _ := f.once(w, "k")
	f.do("FLUSHALL")
	after, fresh := f.once(w, "k")
	require.True(t, fresh)
	require.Less(t, before.String(), after.String())
	require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
}

// TestAppendOnceLateRepetition (B74): a call that is repeated after its window has ended is still known, and is fresh; one
// that is never answered ends with its outcome unknown, and stands once.
func TestAppendOnceLateRepetition(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w, hasty := f.writer(stream.WriterConfig{}), f.writer(stream.WriterConfig{RetryFor: 300 * time.Millisecond})
	f.append(w, 1)
	f.load(sources(t)["append_once"])
	_, err := hasty.Declare(f.ctx)
	require.NoError(t, err)
	proxy.DropReplies(4, func(cmd []string) bool { return cmd[0] == "EVALSHA" && len(cmd) == 14 })
	id, fresh, err := w.AppendOnce(f.ctx, "k", stream.MinWindow, codec.Message{})
	require.NoError(t, err)
	require.True(t, fresh)
	require.GreaterOrEqual(t, proxy.Dropped(), 4)
	require.Equal(t, "2", f.length())
	require.Equal(t, id, f.all()[1].ID)

	proxy.DropReplies(1_000_000, func(cmd []string) bool { return cmd[0] == "EVALSHA" || cmd[0] == "EVAL" })
	_, _, err = hasty.AppendOnce(f.ctx, "other", stream.MinWindow, codec.Message{})
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	require.Equal(t, "3", f.length())
}

// TestAppendOnceOverwritten (B74): a call that is repeated after its window has ended, and after another message took the key, is
// still answered with its own.
func TestAppendOnceOverwritten(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{Brand: "ORD"})
		f.append(w, 1)
		node := f.text("HGET", tier.ScopeKey(f.addr().Scope), "node")
		once := func(token string, window int) (code, id string) {
			m, err := f.client.Run(f.ctx, tier.Call{
				Script: script(t, "append_once"), Keys: []string{f.log(), f.addr().SeenKey("k"), tier.ScopeKey(f.addr().Scope)},
				Args: []string{token, strconv.Itoa(window), "600000", node, "stream:orders", "ORD", "0-0", "m"},
			})
			require.NoError(t, err)
			parts, err := tier.Parts("append_once", m, 4)
			require.NoError(t, err)
			code, err = parts[0].ToString()
			require.NoError(t, err)
			id, err = parts[1].ToString()
			require.NoError(t, err)
			return code, id
		}
		_, first := once("one", 1)
		tiertest.Eventually(t, time.Minute, func() (bool, string) { // the first window ends
			code, _ := once("two", 60_000)
			return code == "ok", code
		})
		code, id := once("one", 1)
		require.Equal(t, "dup", code)
		require.Equal(t, first, id)
		code, _ = once("three", 1)
		require.Equal(t, "seen", code)
		require.Equal(t, "3", f.length())
	})
}

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func (f *fixture) keyedWriter() *stream.Writer {
	return f.writer(stream.WriterConfig{Keyed: true, Brand: "ORD"})
}

// keyedMessages are messages with these keys, whose data count from 0.
func keyedMessages(keys ...string) []codec.Message {
	ms := messages(len(keys))
	for i := range ms {
		ms[i].Key = keys[i]
	}
	return ms
}

// index is what the server has of a key: "version:address" for each of its messages.
func (f *fixture) index(key string) (rows []string) {
	f.t.Helper()
	m := f.do("ZRANGE", f.addr().IndexKey(key), "0", "-1", "WITHSCORES")
	scores, err := m.AsZScores()
	require.NoError(f.t, err)
	for _, s := range scores {
		rows = append(rows, fmt.Sprintf("%.0f:%s", s.Score, s.Member))
	}
	return rows
}

// indexOf is what a key's index has to be for these messages of the log.
func indexOf(records []codec.Record, key string) (rows []string) {
	for _, r := range records {
		if r.Key == key {
			rows = append(rows, fmt.Sprintf("%d:%s", len(rows)+1, r.Addr))
		}
	}
	return rows
}

// TestKeyedAppends: whatever appends to a keyed stream, alone or shared, by position or published, each message of a key
// stands in the key's index at the next version; over the end of a millisecond, too.
func TestKeyedAppends(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.keyedWriter()
		odd := []string{"a", "b", "{x}", "a:b c\x00", strings.Repeat("k", codec.MaxKey)}
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				_, err := w.AppendBatch(f.ctx, keyedMessages(odd[i%5], odd[(i+1)%5], odd[i%5]))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		many := make([]string, 4096)
		for i := range many {
			many[i] = "key" + strconv.Itoa(i%3000)
		}
		_, err := w.AppendBatch(f.ctx, keyedMessages(many...))
		require.NoError(t, err)
		named := f.writer(stream.WriterConfig{Keyed: true, Producer: "importer"})
		for range 2 { // the second has no effect
			_, err = named.AppendAt(f.ctx, 9, keyedMessages("a", "named"))
			require.NoError(t, err)
		}
		stop := f.run(w)
		for _, m := range keyedMessages("a", "published", "a") {
			require.NoError(t, w.Publish(f.ctx, m, nil))
		}
		require.NoError(t, w.Flush(f.ctx))
		stop()
		all := f.all()
		require.Len(t, all, 120+4096+2+3)
		requireAscending(t, all)
		for _, key := range append(odd, "named", "published", "key0", "key1095", "key1096", "key2999") {
			require.NotEmpty(t, f.index(key), key)
			require.Equal(t, indexOf(all, key), f.index(key), key)
		}
	})
}

// TestAppendIf: all conditions hold and all messages are appended, or nothing changes and the error says what is there.
func TestAppendIf(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.keyedWriter()
		_, err := w.AppendIf(f.ctx, keyedMessages("a", "a"), stream.Expect(codec.EntryID{}), stream.ExpectVersion("a", 0))
		require.NoError(t, err)
		ids, err := w.AppendIf(f.ctx, keyedMessages("a", "b"), stream.ExpectVersion("a", 2), stream.ExpectVersion("b", 0))
		require.NoError(t, err)
		all := f.all()
		require.Equal(t, idsOf(all[2:]), ids)
		end := all[3].Addr
		require.Equal(t, indexOf(all, "a"), f.index("a"))
		state := f.scopeState()
		for _, tt := range []struct {
			name       string
			conditions []stream.Condition
			want       stream.ConflictError
		}{
			{"too low", []stream.Condition{stream.ExpectVersion("a", 2)}, stream.ConflictError{Key: "a", Want: "2", Got: "3"}},
			{"too high", []stream.Condition{stream.ExpectVersion("a", 4)}, stream.ConflictError{Key: "a", Want: "4", Got: "3"}},
			{"not new", []stream.Condition{stream.ExpectVersion("a", 3), stream.ExpectVersion("b", 0)}, stream.ConflictError{Key: "b", Want: "0", Got: "1"}},
			{"new", []stream.Condition{stream.ExpectVersion("other", 1)}, stream.ConflictError{Key: "other", Want: "1", Got: "0"}},
			{"not empty", []stream.Condition{stream.Expect(codec.EntryID{})}, stream.ConflictError{Want: "0-0", Got: end.String()}},
			{"behind", []stream.Condition{stream.ExpectVersion("a", 3), stream.Expect(end.Prev())}, stream.ConflictError{Want: end.Prev().String(), Got: end.String()}},
		} {
			_, err := w.AppendIf(f.ctx, keyedMessages("a", "c"), tt.conditions...)
			var conflict *stream.ConflictError
			require.ErrorAs(t, err, &conflict, tt.name)
			tt.want.Stream = f.address
			require.Equal(t, tt.want, *conflict, tt.name)
			require.False(t, tier.OutcomeUnknown(err))
		}
		require.Equal(t, withoutReceipts(state), withoutReceipts(f.scopeState()))
		// A key that is only looked at, and the end of the log.
		_, err = w.AppendIf(f.ctx, keyedMessages("c"), stream.ExpectVersion("a", 3), stream.Expect(end))
		require.NoError(t, err)
		require.Equal(t, indexOf(f.all(), "c"), f.index("c"))
	})
}

// withoutReceipts is a scope's state without the keys of producers.
func withoutReceipts(state string) string {
	var kept []string
	for line := range strings.Lines(state) {
		if !strings.Contains(line, ":pid:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestAppendIfOnAPlainStream: its end is expected as that of a keyed one is, packs or not.
func TestAppendIfOnAPlainStream(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{Pack: 10})
		end := f.append(w, 10)[9].ServerEntry()
		ids, err := w.AppendIf(f.ctx, messages(3), stream.Expect(end))
		require.NoError(t, err)
		_, err = w.AppendIf(f.ctx, messages(3), stream.Expect(end))
		require.ErrorAs(t, err, new(*stream.ConflictError))
		f.append(w, 2) // numbers go on behind a conflict
		all := f.all()
		require.Len(t, all, 15)
		require.Equal(t, ids, idsOf(all[10:13]))
		require.Empty(t, f.index("k"))
	})
}

// TestVersionsHaveOneWinner: of 50 who append at one version of a key, through clients of their own, one wins, until each
// has won; what others append through the same writers is not disturbed.
func TestVersionsHaveOneWinner(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		var writers []*stream.Writer
		for range 5 {
			w, err := stream.NewWriter(tiertest.Dial(t, s), stream.WriterConfig{Address: f.address, Keyed: true})
			require.NoError(t, err)
			writers = append(writers, w)
		}
		var won [50]atomic.Int32
		var wg sync.WaitGroup
		for i := range 50 {
			w := writers[i%5]
			wg.Go(func() {
				for version := uint64(0); version < 50; {
					_, err := w.AppendIf(f.ctx, keyedMessages("contended"), stream.ExpectVersion("contended", version))
					var conflict *stream.ConflictError
					switch {
					case err == nil:
						won[version].Add(1)
						return
					case !errors.As(err, &conflict):
						t.Error(err)
						return
					}
					got, _ := strconv.ParseUint(conflict.Got, 10, 64)
					if got <= version {
						t.Errorf("at version %d there was %d", version, got)
						return
					}
					version = got
				}
			})
			wg.Go(func() {
				if _, err := w.Append(f.ctx, codec.Message{Key: "neighbour"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for version := range won {
			require.EqualValues(t, 1, won[version].Load(), "version %d", version)
		}
		all := f.all()
		require.Len(t, f.index("contended"), 50)
		require.Equal(t, indexOf(all, "contended"), f.index("contended"))
		require.Equal(t, indexOf(all, "neighbour"), f.index("neighbour"))
		require.Len(t, all, 100)
	})
}

// TestConflictIsNoted: a call that was refused is refused again when it is repeated, also when its condition would hold by
// then: the caller of the first sending was, or will be, told that nothing was written.
func TestConflictIsNoted(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		id, err := f.keyedWriter().Declare(f.ctx)
		require.NoError(t, err)
		run := func(number, want string) []string {
			m, err := f.client.Run(f.ctx, tier.Call{
				Script: script(t, "append_if"),
				Keys:   []string{f.log(), f.addr().ProducerKey("aa"), tier.ScopeKey(f.addr().Scope), f.addr().IndexKey("k")},
				Args:   []string{number, "60000", strconv.Itoa(id.Node), "stream:orders", "ORD keyed", "0-0", "", "7", "", want, "1", encoded(t, "k")},
			})
			require.NoError(t, err)
			parts, err := m.ToArray()
			require.NoError(t, err)
			reply := make([]string, len(parts))
			for i := range parts {
				if reply[i], err = parts[i].ToString(); err != nil {
					n, err := parts[i].AsInt64()
					require.NoError(t, err)
					reply[i] = strconv.FormatInt(n, 10)
				}
			}
			return reply
		}
		require.Equal(t, []string{"conflict", "0", "1", "0"}, run("1", "1"))
		require.Equal(t, "ok", run("2", "0")[0])
		require.Equal(t, []string{"conflict", "0", "1", "0"}, run("1", "1"), "it would hold by now")
		require.Equal(t, "dup", run("2", "0")[0])
		for n := 3; n < 10; n++ { // seven more push the first receipt out
			require.Equal(t, []string{"conflict", "1", "1", "0"}, run(strconv.Itoa(n), "0"))
		}
		require.Equal(t, "order", run("1", "1")[0])
		require.Equal(t, "1", f.length())
	})
}

// TestConflictThroughFaults (B74): replies that are lost change neither what wins nor what conflicts.
func TestConflictThroughFaults(t *testing.T) {
	tiertest.EachPrivate(t, func(t *testing.T, s *tiertest.Server) {
		f, proxy := setUpProxied(t, s)
		f.load(sources(t)["append_if"])
		w := f.keyedWriter()
		for version := range uint64(5) {
			for _, conflicts := range []bool{false, true} {
				proxy.DropReplies(1, runs(sources(t)["append_if"]))
				_, err := w.AppendIf(f.ctx, keyedMessages("a", "b"), stream.ExpectVersion("a", version), stream.ExpectVersion("b", version))
				require.Equal(t, conflicts, errors.As(err, new(*stream.ConflictError)), "%v", err)
				require.True(t, conflicts || err == nil, "%v", err)
			}
		}
		require.Equal(t, 10, proxy.Dropped())
		require.Len(t, f.index("a"), 5)
		require.Equal(t, indexOf(f.all(), "b"), f.index("b"))
	})
}

// TestVersionsModel: random appends, with and without conditions, against a twin that only counts.
func TestVersionsModel(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Shared(t, kind)
			client := tiertest.Dial(t, server)
			rapid.Check(t, func(rt *rapid.T) {
				f := setUpWith(t, server, client)
				writers := []*stream.Writer{f.keyedWriter(), f.keyedWriter()}
				twin := map[string]uint64{}
				var log []string
				key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
				rt.Repeat(map[string]func(*rapid.T){
					"append": func(rt *rapid.T) {
						keys := rapid.SliceOfN(key, 1, 5).Draw(rt, "keys")
						_, err := rapid.SampledFrom(writers).Draw(rt, "writer").AppendBatch(f.ctx, keyedMessages(keys...))
						require.NoError(rt, err)
						for _, k := range keys {
							twin[k]++
							log = append(log, k)
						}
					},
					"append if": func(rt *rapid.T) {
						keys := rapid.SliceOfN(key, 1, 5).Draw(rt, "keys")
						var conditions []stream.Condition
						holds := true
						for _, k := range rapid.SliceOfNDistinct(key, 1, 3, rapid.ID).Draw(rt, "expected") {
							off := rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(rt, "off")
							holds = holds && off == 0
							conditions = append(conditions, stream.ExpectVersion(k, twin[k]+off))
						}
						_, err := rapid.SampledFrom(writers).Draw(rt, "writer").AppendIf(f.ctx, keyedMessages(keys...), conditions...)
						require.Equal(rt, holds, err == nil, "%v", err)
						if !holds {
							require.ErrorAs(rt, err, new(*stream.ConflictError))
							return
						}
						for _, k := range keys {
							twin[k]++
							log = append(log, k)
						}
					},
					"": func(rt *rapid.T) {},
				})
				if len(log) == 0 {
					return
				}
				all := f.all()
				require.Len(rt, all, len(log))
				for i := range all {
					require.Equal(rt, log[i], all[i].Key)
				}
				for k, version := range twin {
					require.Len(rt, f.index(k), int(version))
					require.Equal(rt, indexOf(all, k), f.index(k))
				}
			})
		})
	}
}

// TestVersionsAfterFlush: a server that lost everything is told of the stream again, and versions begin anew: who expects
// an old one gets a conflict, who expects none goes on at version 1.
func TestVersionsAfterFlush(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			w := f.keyedWriter()
			_, err := w.AppendBatch(f.ctx, keyedMessages("a", "a", "a"))
			require.NoError(t, err)
			f.do("FLUSHALL")
			_, err = f.keyedWriter().AppendIf(f.ctx, keyedMessages("a"), stream.ExpectVersion("a", 3))
			var conflict *stream.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, "0", conflict.Got)
			_, err = w.AppendIf(f.ctx, keyedMessages("a"), stream.ExpectVersion("a", 3))
			require.ErrorAs(t, err, &conflict)
			_, err = w.Append(f.ctx, codec.Message{Key: "a"})
			require.NoError(t, err)
			require.Equal(t, indexOf(f.all(), "a"), f.index("a"))
			require.Equal(t, "ORD keyed", f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders"))
		})
	}
}

// TestKeyedIsAKind: writers of plain streams and of exclusive ones are refused by a keyed stream, and the reverse; Info
// tells of it.
func TestKeyedIsAKind(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.keyedWriter().Append(f.ctx, codec.Message{Key: "a"})
		require.NoError(t, err)
		var differs *stream.KindDiffersError
		for ask, w := range map[string]*stream.Writer{"": f.writer(stream.WriterConfig{Pack: 2}), "exclusive": f.exclusive(f.mint(), "")} {
			_, err = w.Append(f.ctx, codec.Message{Key: "a"})
			require.ErrorAs(t, err, &differs)
			require.Equal(t, stream.KindDiffersError{Stream: f.address, Have: "keyed", Ask: ask}, *differs)
			require.ErrorContains(t, err, "write with Keyed")
		}
		_, _, err = f.writer(stream.WriterConfig{}).AppendOnce(f.ctx, "once", 1e9, codec.Message{})
		require.ErrorAs(t, err, &differs)
		plain := f.at("plain")
		plain.append(plain.writer(stream.WriterConfig{}), 1)
		_, err = plain.writer(stream.WriterConfig{Keyed: true}).Append(f.ctx, codec.Message{Key: "a"})
		require.ErrorAs(t, err, &differs)
		require.Equal(t, stream.KindDiffersError{Stream: plain.address, Ask: "keyed"}, *differs)
		require.Equal(t, "1", f.length())
		infos, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.True(t, infos[0].Keyed)
		require.False(t, infos[1].Keyed)
	})
}

// TestBadConditions: what cannot hold, or cannot be a version, is refused before anything is sent.
func TestBadConditions(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	w, plain := f.keyedWriter(), f.writer(stream.WriterConfig{})
	one := codec.EntryID{Ms: 1}
	for name, do := range map[string]func() error{
		"no key":          func() error { _, err := w.Append(f.ctx, codec.Message{}); return err },
		"published":       func() error { return w.Publish(f.ctx, codec.Message{}, nil) },
		"one of two":      func() error { _, err := w.AppendBatch(f.ctx, keyedMessages("a", "")); return err },
		"once":            func() error { _, _, err := w.AppendOnce(f.ctx, "k", 1e9, codec.Message{Key: "a"}); return err },
		"no condition":    func() error { _, err := w.AppendIf(f.ctx, keyedMessages("a")); return err },
		"no message":      func() error { _, err := w.AppendIf(f.ctx, nil, stream.ExpectVersion("a", 0)); return err },
		"two ends":        func() error { return appendIf(f.ctx, w, stream.Expect(one), stream.Expect(one.Next())) },
		"two versions":    func() error { return appendIf(f.ctx, w, stream.ExpectVersion("a", 1), stream.ExpectVersion("a", 2)) },
		"an empty key":    func() error { return appendIf(f.ctx, w, stream.ExpectVersion("", 1)) },
		"a long key":      func() error { return appendIf(f.ctx, w, stream.ExpectVersion(strings.Repeat("k", 1025), 1)) },
		"a large version": func() error { return appendIf(f.ctx, w, stream.ExpectVersion("a", 1<<53)) },
		"not keyed":       func() error { return appendIf(f.ctx, plain, stream.ExpectVersion("a", 1)) },
		"named": func() error {
			return appendIf(f.ctx, f.writer(stream.WriterConfig{Keyed: true, Producer: "p"}), stream.ExpectVersion("a", 1))
		},
		"exclusive": func() error { return appendIf(f.ctx, f.exclusive(f.mint(), ""), stream.Expect(one)) },
		"packs":     func() error { return newWriter(f, stream.WriterConfig{Keyed: true, Pack: 2}) },
		"both kinds": func() error {
			return newWriter(f, stream.WriterConfig{Keyed: true, Exclusive: true, Mint: f.mint()})
		},
	} {
		require.ErrorIs(t, do(), stream.ErrBadCall, name)
	}
	require.Equal(t, "0", f.text("EXISTS", tier.ScopeKey(f.addr().Scope)))
}

func appendIf(ctx context.Context, w *stream.Writer, conditions ...stream.Condition) error {
	_, err := w.AppendIf(ctx, keyedMessages("a"), conditions...)
	return err
}

func newWriter(f *fixture, cfg stream.WriterConfig) error {
	cfg.Address = f.address
	_, err := stream.NewWriter(f.client, cfg)
	return err
}

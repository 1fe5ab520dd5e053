package stream_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestServerDown (B50): against a server that is down, a writer tries with growing pauses, for RetryFor, and says then
// that it cannot be reached; when the server is back in time, everything goes in once.
func TestServerDown(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey, "--appendonly", "yes", "--appendfsync", "always")
	f, proxy := setUpProxied(t, s)
	w := f.writer(stream.WriterConfig{RetryFor: 1500 * time.Millisecond})
	ids := f.append(w, 1)
	s.Kill()
	before := proxy.Attempts()
	began := time.Now()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := w.Append(f.ctx, codec.Message{Key: "down"})
			if err == nil || tier.Classify(err) == nil || tier.Classify(err).Reaction != tier.BackOff {
				t.Errorf("against a server that is down: %v", err)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	require.GreaterOrEqual(t, took, time.Second)
	tries := proxy.Attempts() - before
	require.NotZero(t, tries)
	require.LessOrEqual(t, tries, int(10+10*took.Seconds()), "a storm of connections in %s", took)

	late := f.start(f.writer(stream.WriterConfig{RetryFor: time.Minute}), "back in time")
	require.NoError(t, s.Restart(f.ctx))
	<-late.done
	require.NoError(t, late.err)
	records := f.all()
	require.Equal(t, ids[0], records[0].ID)
	require.Equal(t, late.id, records[len(records)-1].ID)
	requireAscending(t, records)
}

// patient is a client that gives up on a call early, so that a frozen server is noticed.
func patient(t testing.TB, s interface{ URL() string }, timeout time.Duration) *tier.Client {
	t.Helper()
	c, err := tier.Dial(t.Context(), s.URL(), tier.Options{CallTimeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (f *fixture) metric(name string, reg *prometheus.Registry) float64 {
	f.t.Helper()
	families, err := reg.Gather()
	require.NoError(f.t, err)
	for _, family := range families {
		if family.GetName() == "echomq_stream_"+name {
			require.Len(f.t, family.GetMetric(), 1)
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// TestFrozenServer (B57): calls that time out at a server that hangs are repeated, and are in the log once when it wakes.
func TestFrozenServer(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			f.client = patient(t, f.server, 200*time.Millisecond)
			reg := prometheus.NewRegistry()
			w := f.writer(stream.WriterConfig{Registerer: reg, RetryFor: time.Minute})
			f.append(w, 1)
			require.NoError(t, f.server.Freeze())
			var calls []*appending1
			for i := range 40 {
				calls = append(calls, f.start(w, fmt.Sprint(i)))
			}
			tiertest.Eventually(t, soon, func() (bool, string) {
				n := f.metric("append_repeats_total", reg)
				return n >= 2, fmt.Sprint(n, " repeats")
			})
			require.NoError(t, f.server.Thaw())
			byKey := map[string]codec.ID{}
			for i, c := range calls {
				<-c.done
				require.NoError(t, c.err)
				byKey[fmt.Sprint(i)] = c.id
			}
			records := f.all()[1:]
			requireAscending(t, records)
			require.Len(t, records, len(calls))
			for _, r := range records {
				require.Equal(t, byKey[r.Key], r.ID)
				delete(byKey, r.Key)
			}
		})
	}
}

// TestFlushAll: a writer goes on after the server has lost everything, with the same brand and node number, and ids that
// ascend beyond those that are gone; so does one that is opened later.
func TestFlushAll(t *testing.T) {
	tiertest.EachPrivate(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.writer(stream.WriterConfig{Brand: "XYZ"}).Declare(f.ctx)
		require.NoError(t, err)
		w := f.writer(stream.WriterConfig{}) // not told the brand, which the name would not give
		before, err := w.Declare(f.ctx)
		require.NoError(t, err)
		require.Equal(t, codec.Brand("XYZ"), before.Brand)
		lost := f.append(w, 10)
		f.run(w)
		for range 3 {
			f.do("FLUSHALL")
			kept := f.append(w, 10)
			o := f.publish(w, 1000)
			require.NoError(t, w.Flush(f.ctx))
			require.Equal(t, make([]error, 1000), o.errs)
			require.Less(t, lost[9].String(), kept[0].String())
			after, err := w.Declare(f.ctx)
			require.NoError(t, err)
			require.Equal(t, before, after)
			node, err := f.client.RegisteredNode(f.ctx, f.addr().Scope)
			require.NoError(t, err)
			require.Equal(t, before.Node, node)
			require.Equal(t, tier.Wire, f.text("GET", tier.VersionKey))
			records := f.all()
			requireAscending(t, records)
			require.Equal(t, append(kept, o.ids...), idsOf(records))
			lost = o.ids[990:]
		}
		require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
	})
}

// TestServerRestarts: with an append-only file nothing that was acknowledged is lost when the server is killed while a
// writer writes, and nothing is there twice; without one, the writer goes on with an empty log.
func TestServerRestarts(t *testing.T) {
	for _, aof := range []bool{true, false} {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			t.Run(fmt.Sprintf("%s, append-only %t", kind, aof), func(t *testing.T) {
				t.Parallel()
				var args []string
				if aof {
					args = []string{"--appendonly", "yes", "--appendfsync", "always"}
				}
				f := setUp(t, tiertest.Private(t, kind, args...))
				w := f.writer(stream.WriterConfig{Pack: 3})
				first, err := w.Declare(f.ctx)
				require.NoError(t, err)
				stop := f.run(w)
				var o outcomes
				published := 0
				for range 3 {
					done := make(chan struct{})
					go func() {
						defer close(done)
						for range 5000 {
							m := codec.Message{Data: authored(0, published)}
							if err := w.Publish(f.ctx, m, o.of(published)); err != nil {
								t.Error(err)
								return
							}
							published++
						}
					}()
					begun := o.count()
					tiertest.Eventually(t, soon, func() (bool, string) { return o.count() > begun, "nothing is published" })
					f.server.Kill()
					require.NoError(t, f.server.Restart(f.ctx))
					<-done
				}
				require.NoError(t, w.Publish(f.ctx, codec.Message{Data: authored(0, published)}, o.of(published))) // the others may have been there before
				published++
				require.NoError(t, w.Flush(f.ctx))
				stop()
				require.Equal(t, published, o.count())
				records := f.all()
				requireAscending(t, records)
				at := map[int]codec.ID{}
				last := -1
				for _, r := range records {
					n := int(r.Data[1])<<24 | int(r.Data[2])<<16 | int(r.Data[3])<<8 | int(r.Data[4])
					require.Greater(t, n, last)
					last = n
					at[n] = r.ID
				}
				for i, n := range o.n {
					switch {
					case o.errs[i] == nil && aof:
						require.Equal(t, o.ids[i], at[n], "message %d", n)
					case o.errs[i] != nil && !tier.OutcomeUnknown(o.errs[i]):
						require.NotContains(t, at, n, "%v", o.errs[i])
					case o.errs[i] != nil:
						require.Equal(t, false, aof, "with its record in the file, a repetition is answered: %v", o.errs[i])
					}
				}
				again, err := f.writer(stream.WriterConfig{}).Declare(f.ctx)
				require.NoError(t, err)
				require.Equal(t, first, again)
			})
		}
	}
}

// TestConnectionsAreKilled: a writer whose connections are killed all the time, and whose scripts are flushed (B146),
// has everything in the log once, in order.
func TestConnectionsAreKilled(t *testing.T) {
	trouble := map[string][]string{
		"CLIENT KILL":  {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"},
		"SCRIPT FLUSH": {"SCRIPT", "FLUSH"},
	}
	for name, cmd := range trouble {
		for _, kind := range kinds {
			for _, pack := range []int{1, 20} {
				if kind.Cluster() && pack > 1 {
					continue // nothing about them differs there
				}
				t.Run(fmt.Sprintf("%s, %s, pack %d", name, kind, pack), func(t *testing.T) {
					t.Parallel()
					f := setUp(t, tiertest.Private(t, kind))
					w := f.writer(stream.WriterConfig{Pack: pack})
					stop := f.run(w)
					const n = 5_000
					var o outcomes
					done := make(chan struct{})
					go func() {
						defer close(done)
						for i, m := range messages(n) {
							if err := w.Publish(f.ctx, m, o.of(i)); err != nil {
								t.Error(err)
								return
							}
						}
					}()
					for step := 1; step <= 8; step++ {
						tiertest.Eventually(t, soon, func() (bool, string) { return o.count() >= step*n/10, fmt.Sprint(o.count()) })
						f.do(cmd[0], cmd[1:]...)
					}
					<-done
					require.NoError(t, w.Flush(f.ctx))
					stop()
					require.Equal(t, make([]error, n), o.errs)
					f.client = tiertest.Dial(t, f.server)
					requireCounted(t, o.ids, f.all())
				})
			}
		}
	}
}

// TestStoreFull: a full server is reported at once, with nothing written; when there is room again, the writer goes on.
func TestStoreFull(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, pack := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, pack %d", kind, pack), func(t *testing.T) {
				t.Parallel()
				f := setUp(t, tiertest.Private(t, kind))
				w := f.writer(stream.WriterConfig{Pack: pack})
				stop := f.run(w)
				want := f.append(w, 10)
				f.fill(true)
				_, err := w.AppendBatch(f.ctx, messages(3))
				require.ErrorIs(t, err, tier.ErrStoreFull)
				require.False(t, tier.OutcomeUnknown(err))
				require.ErrorContains(t, err, f.log())
				o := f.publish(w, 2000)
				require.NoError(t, w.Flush(f.ctx))
				require.Equal(t, 2000, o.count())
				for _, err := range o.errs {
					require.ErrorIs(t, err, tier.ErrStoreFull)
				}
				require.Equal(t, want, idsOf(f.all()))
				f.fill(false)
				want = append(want, f.append(w, 10)...)
				stop()
				require.Equal(t, want, idsOf(f.all()))
			})
		}
	}
}

// TestReadOnly: a replica is waited for, for RetryFor, and then named as such with nothing written.
func TestReadOnly(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			impatient := f.writer(stream.WriterConfig{RetryFor: 100 * time.Millisecond})
			w := f.writer(stream.WriterConfig{})
			f.append(impatient, 1)
			f.append(w, 1)
			f.do("REPLICAOF", "127.0.0.1", "1") // a primary that is down: read-only from now on
			_, err := impatient.Append(f.ctx, codec.Message{})
			require.ErrorIs(t, err, tier.ErrReadOnly)
			require.False(t, tier.OutcomeUnknown(err))
			waits := f.start(w, "waits")
			f.do("REPLICAOF", "NO", "ONE")
			<-waits.done
			require.NoError(t, waits.err)
			require.Equal(t, []string{"k", "k", "waits"}, keysOf(f.all()))
		})
	}
}

// TestPermissions (B149): what the user lacks is named, at once and without a loop.
func TestPermissions(t *testing.T) {
	tests := []struct {
		name   string
		rules  string // of the user, after all rights were given
		append bool   // the writer notices, else the reader
		want   string // in the error
	}{
		{"no evalsha", "-evalsha", true, "evalsha"},
		{"no xadd", "-xadd", true, "xadd"},
		{"no xsetid", "-xsetid", true, "xsetid"},
		{"no set", "-set", true, "set"},
		{"no hget", "-hget", true, "hget"},
		{"no key of the registry", "resetkeys ~emq:*", true, ""},
		{"no key of the scope", "resetkeys ~{emq}:*", true, ""},
		{"no xrange", "-xrange", false, "xrange"},
		{"no rights", "-@all", true, ""},
	}
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, %s", kind, tt.name), func(t *testing.T) {
				t.Parallel()
				f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
				f.append(f.writer(stream.WriterConfig{}), 1)
				user := tiertest.Scope(t)
				f.do("ACL", "SETUSER", user, "on", ">secret-of-"+user, "~*", "&*", "+@all")
				t.Cleanup(func() { f.do("ACL", "DELUSER", user) })
				url := strings.Replace(proxy.URL(), "://", fmt.Sprintf("://%s:secret-of-%s@", user, user), 1)
				client, err := tier.Dial(f.ctx, url, tier.Options{})
				require.NoError(t, err)
				t.Cleanup(client.Close)
				f.do("ACL", append([]string{"SETUSER", user}, strings.Fields(tt.rules)...)...)
				f.client = client
				before := proxy.Commands()
				if tt.append {
					_, err = f.writer(stream.WriterConfig{}).AppendBatch(f.ctx, messages(4096))
					_, packed := f.writer(stream.WriterConfig{Pack: 4096}).AppendBatch(f.ctx, messages(4096))
					require.ErrorIs(t, packed, tier.ErrPermission)
				} else {
					_, err = f.reader().Last(f.ctx, 1)
					for _, e := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
						err = e
					}
				}
				require.ErrorIs(t, err, tier.ErrPermission)
				require.False(t, tier.OutcomeUnknown(err))
				if kind == tiertest.Valkey || tt.want != "xadd" { // Redis 7.0 does not say it of what a script runs
					require.ErrorContains(t, err, tt.want)
				}
				require.NotContains(t, err.Error(), "secret")
				require.Equal(t, "1", f.length(), "half written")
				sent := 0
				for name, n := range proxy.Commands() {
					sent += n - before[name]
				}
				require.Less(t, sent, 16, "a loop")
			})
		}
	}
}

// TestWrongType: the key that holds another type is named.
func TestWrongType(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, pack := range []int{1, 2} {
			f := setUp(t, s)
			w := f.writer(stream.WriterConfig{Pack: pack, Producer: "p"})
			_, err := w.Declare(f.ctx)
			require.NoError(t, err)
			keys := map[string]string{
				"log":      f.log(),
				"producer": f.addr().ProducerKey("p"),
				"scope":    tier.ScopeKey(f.addr().Scope),
			}
			for name, key := range keys {
				held := f.text("DUMP", key)
				f.do("DEL", key)
				f.do("SADD", key, "x")
				_, err := w.AppendAt(f.ctx, 7, messages(3))
				require.ErrorIs(t, err, tier.ErrWrongType, name)
				require.False(t, tier.OutcomeUnknown(err), name)
				require.ErrorContains(t, err, " "+key+": ")
				f.do("DEL", key)
				if held != "" {
					f.do("RESTORE", key, "0", held)
				}
			}
			require.Equal(t, "0", f.text("EXISTS", f.log()))
			_, err = w.AppendAt(f.ctx, 7, messages(3))
			require.NoError(t, err)
		}
	})
}

// TestStreamRemoved: a tombstone ends writers that were at work; a new one makes the stream again.
func TestStreamRemoved(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{Brand: "ORD"})
		stop := f.run(w)
		f.append(w, 2)
		f.do("DEL", f.log())
		f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "-ORD")
		for range 2 {
			_, err := w.Append(f.ctx, codec.Message{})
			require.ErrorIs(t, err, stream.ErrStreamRemoved)
			require.False(t, tier.OutcomeUnknown(err))
		}
		o := f.publish(w, 10)
		require.NoError(t, w.Flush(f.ctx))
		for _, err := range o.errs {
			require.ErrorIs(t, err, stream.ErrStreamRemoved)
		}
		require.Equal(t, 10, o.count())
		stop()
		require.Equal(t, "0", f.text("EXISTS", f.log())) // B30
		_, err := f.reader().Last(f.ctx, 1)
		require.ErrorIs(t, err, stream.ErrStreamRemoved)

		id, err := f.writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.NoError(t, err)
		require.Equal(t, codec.Brand("ORD"), id.Brand())
		require.Len(t, f.all(), 1)
	})
}

// TestWriterMetrics: writers of one process share the series of their stream (B152), and count what happened.
func TestWriterMetrics(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	reg := prometheus.NewPedanticRegistry()
	w, again := f.writer(stream.WriterConfig{Registerer: reg}), f.writer(stream.WriterConfig{Registerer: reg})
	f.append(w, 3)
	f.append(again, 2)
	proxy.DropReplies(1, appends)
	f.append(w, 1)
	f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "-ORD")
	_, err := w.AppendBatch(f.ctx, messages(1))
	require.ErrorIs(t, err, stream.ErrStreamRemoved)
	f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "ORD")
	require.Equal(t, 6.0, f.metric("appended_messages_total", reg))
	require.Equal(t, 1.0, f.metric("append_repeats_total", reg))
	require.Equal(t, 1.0, f.metric("append_failed_total", reg))
	require.Equal(t, 0.0, f.metric("append_unknown_total", reg))
	require.Greater(t, f.metric("appended_bytes_total", reg), 0.0)
	families, err := reg.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestPublishBeforeTheServer (B50): against a server that was down from the start, each message is given up after RetryFor and its caller told,
// although others are published all the time.
func TestPublishBeforeTheServer(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{RetryFor: 100 * time.Millisecond})
	defer f.run(w)()
	proxy.Refuse(true)
	proxy.Cut()
	told := make(chan error, 1)
	more := time.NewTicker(5 * time.Millisecond)
	defer more.Stop()
	limit := time.After(soon / 2)
	for done := func(_ codec.ID, err error) { told <- err }; ; done = nil {
		require.NoError(t, w.Publish(f.ctx, codec.Message{}, done))
		select {
		case err := <-told:
			require.Equal(t, tier.BackOff, tier.Classify(err).Reaction, "%v", err)
			return
		case <-limit:
			t.Fatal("nobody was told")
		case <-more.C:
		}
	}
}

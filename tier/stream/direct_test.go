package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// directPack is a size at which packs of large messages go by transactions, as single ones do.
const directPack = 50

// large are n messages that differ, so large that packs of them are worth a transaction.
func large(n int) []codec.Message {
	ms := messages(n)
	for i := range ms {
		ms[i].Data = append(ms[i].Data, make([]byte, 300)...)
	}
	return ms
}

// direct is a writer whose next transaction is open, and what it has appended.
type direct struct {
	*fixture
	w    *stream.Writer
	pack int
	ids  []codec.ID
	top  codec.EntryID // of all that the writer was given
}

func (d *direct) append(n int) {
	d.t.Helper()
	ids, err := d.w.AppendBatch(d.ctx, large(n))
	require.NoError(d.t, err)
	require.Positive(d.t, ids[0].ServerEntry().Compare(d.top))
	d.top = ids[n-1].ServerEntry()
	d.ids = append(d.ids, ids...)
}

func (d *direct) transactions() int {
	d.t.Helper()
	return d.calls("exec")
}

// calls is how often the server of the fixture has run a command.
func (f *fixture) calls(command string) (n int) {
	f.t.Helper()
	stats, err := f.raw().Do(f.ctx, f.raw().B().Info().Section("commandstats").Build()).ToString()
	require.NoError(f.t, err)
	if _, rest, found := strings.Cut(stats, "cmdstat_"+command+":calls="); found {
		_, err := fmt.Sscanf(rest, "%d,", &n)
		require.NoError(f.t, err)
	}
	return n
}

// eachDirect tries singles and packs on a server of their own, with a transaction open.
func eachDirect(t *testing.T, kind tiertest.Kind, try func(t *testing.T, d *direct)) {
	for _, pack := range []int{1, directPack} {
		t.Run(fmt.Sprintf("%s, pack %d", kind, pack), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			d := &direct{fixture: f, w: f.writer(stream.WriterConfig{Pack: pack}), pack: pack}
			d.append(1)
			d.append(100)
			try(t, d)
		})
	}
}

// whole: what the callers were told is in the log, once, and nothing else; nothing shows that anything was taken out.
func (d *direct) whole() {
	d.t.Helper()
	got := d.all()
	requireAscending(d.t, got)
	requireSame(d.t, d.ids, idsOf(got))
	reply := d.do("XINFO", "STREAM", d.log())
	info, err := reply.AsMap()
	require.NoError(d.t, err)
	added, length := info["entries-added"], info["length"]
	a, err := added.AsInt64()
	require.NoError(d.t, err)
	n, err := length.AsInt64()
	require.NoError(d.t, err)
	require.Equal(d.t, n, a)
	require.NoError(d.t, stream.Check(d.ctx, d.client, d.addr().Scope))
}

// TestDirect: many messages go by transactions where the server keeps the time in them, and by scripts elsewhere.
func TestDirect(t *testing.T) {
	for kind, want := range map[tiertest.Kind]int{tiertest.Valkey: 3, tiertest.Redis: 0} {
		eachDirect(t, kind, func(t *testing.T, d *direct) {
			d.append(60)
			other := &direct{fixture: d.fixture, w: d.w}
			other.append(200)
			d.ids = append(d.ids, other.ids...)
			d.append(1) // by a script, which the open transaction does not survive
			d.whole()
			require.Equal(t, want, d.transactions())
			d.append(300)
			d.whole()
			require.Equal(t, want+min(want, 1), d.transactions())
		})
	}
}

// TestDirectWriters: writers of one log do not disturb each other, whatever way each goes.
func TestDirectWriters(t *testing.T) {
	for _, s := range []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Shared(t, s))
			given := map[codec.ID]bool{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 6 {
				pack, n := 1+i%2*(directPack-1), 1+i/2*120
				w := f.writer(stream.WriterConfig{Pack: pack})
				wg.Go(func() {
					for range 12 {
						ids, err := w.AppendBatch(f.ctx, large(n))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for _, id := range ids {
							given[id] = true
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			got := f.all()
			requireAscending(t, got)
			require.Len(t, got, 12*2*(1+121+241))
			for _, id := range idsOf(got) {
				require.True(t, given[id], "%s", id)
			}
		})
	}
}

// TestDirectThroughFaults (B74): wherever the connection breaks in a transaction, its messages stand in the log once.
func TestDirectThroughFaults(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	for _, pack := range []int{1, directPack} {
		for _, command := range []string{"MULTI", "XADD", "EVAL", "EXEC"} {
			for lost, inject := range map[string]func(*tiertest.Proxy, int, func([]string) bool){
				"reply": (*tiertest.Proxy).DropReplies, "request": (*tiertest.Proxy).DropRequests,
			} {
				t.Run(fmt.Sprintf("pack %d, %s of %s", pack, lost, command), func(t *testing.T) {
					t.Parallel()
					f, proxy := setUpProxied(t, s)
					d := &direct{fixture: f, w: f.writer(stream.WriterConfig{Pack: pack})}
					d.append(1)
					inject(proxy, 1, func(cmd []string) bool { return cmd[0] == command })
					for range 3 {
						d.append(120)
					}
					require.Equal(t, 1, proxy.Dropped())
					d.whole()
				})
			}
		}
	}
}

// published publishes n messages, and waits until their ids are known.
func (d *direct) published(n int) {
	d.t.Helper()
	ms := large(1)
	for range n {
		require.NoError(d.t, d.w.Publish(d.ctx, ms[0], func(id codec.ID, err error) {
			if err != nil {
				d.t.Error(err)
			}
			d.ids = append(d.ids, id)
		}))
	}
	require.NoError(d.t, d.w.Flush(d.ctx))
}

// TestDirectAhead: while the server runs one transaction, it is handed the commands of the next.
func TestDirectAhead(t *testing.T) {
	for _, pack := range []int{1, directPack} {
		t.Run(strconv.Itoa(pack), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, tiertest.Valkey)
			f, proxy := setUpProxied(t, s)
			d := &direct{fixture: f, w: f.writer(stream.WriterConfig{Pack: pack})}
			defer f.run(d.w)()
			execs, ahead := make(chan bool, 100), make(chan bool, 1)
			var frozen atomic.Bool
			proxy.DropRequests(1, func(cmd []string) bool {
				switch {
				case cmd[0] == "EXEC" && !frozen.Swap(true):
					s.Freeze()
					execs <- true
				case cmd[0] == "XADD" && frozen.Load():
					select {
					case ahead <- true:
					default:
					}
				}
				return false
			})
			seen := make(chan bool)
			go func() { // the first few have nothing behind them yet
				defer close(seen)
				for range execs {
					select {
					case <-ahead:
						s.Thaw()
						return
					case <-time.After(100 * time.Millisecond):
						frozen.Store(false)
						s.Thaw()
					}
				}
			}()
			d.published(20_000)
			close(execs)
			<-seen
			require.True(t, frozen.Load())
			d.whole()
		})
	}
}

// TestDirectAheadThroughFaults (B74): wherever a connection breaks while one transaction runs and the next one is handed over, messages stand in the
// log once, in the order in which they were published.
func TestDirectAheadThroughFaults(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	for _, pack := range []int{1, directPack} {
		for _, at := range []struct {
			command string
			nth     int
		}{{"MULTI", 2}, {"XADD", 4000}, {"EVAL", 2}, {"EXEC", 1}, {"EXEC", 3}} {
			for lost, inject := range map[string]func(*tiertest.Proxy, int, func([]string) bool){
				"reply": (*tiertest.Proxy).DropReplies, "request": (*tiertest.Proxy).DropRequests,
			} {
				t.Run(fmt.Sprintf("pack %d, %s of %s %d", pack, lost, at.command, at.nth), func(t *testing.T) {
					t.Parallel()
					f, proxy := setUpProxied(t, s)
					d := &direct{fixture: f, w: f.writer(stream.WriterConfig{Pack: pack})}
					defer f.run(d.w)()
					n := at.nth
					if pack > 1 && at.command == "XADD" {
						n /= directPack
					}
					inject(proxy, 1, nth(n, func(cmd []string) bool { return cmd[0] == at.command }))
					d.published(10_000)
					require.Equal(t, 1, proxy.Dropped())
					d.whole()
				})
			}
		}
	}
}

// TestDirectAppendsThroughFaults (B74): the same of many callers who wait, of whom some are sent while others are told.
func TestDirectAppendsThroughFaults(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	const callers, calls = 150, 10
	for _, command := range []string{"MULTI", "XADD", "EVAL", "EXEC"} {
		for lost, inject := range map[string]func(*tiertest.Proxy, int, func([]string) bool){
			"reply": (*tiertest.Proxy).DropReplies, "request": (*tiertest.Proxy).DropRequests,
		} {
			for _, n := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s of %s %d", lost, command, n), func(t *testing.T) {
					t.Parallel()
					f, proxy := setUpProxied(t, s)
					d := &direct{fixture: f, w: f.writer(stream.WriterConfig{})}
					d.append(1)
					if command == "MULTI" {
						n = min(n, 2)
					}
					inject(proxy, 1, nth(n, func(cmd []string) bool { return cmd[0] == command }))
					var mu sync.Mutex
					var wg sync.WaitGroup
					for range callers {
						wg.Go(func() {
							for range calls {
								id, err := d.w.Append(f.ctx, codec.Message{})
								if err != nil {
									t.Error(err)
									return
								}
								mu.Lock()
								d.ids = append(d.ids, id)
								mu.Unlock()
							}
						})
					}
					wg.Wait()
					require.Equal(t, 1, proxy.Dropped())
					slices.SortFunc(d.ids, codec.ID.Compare)
					d.whole()
				})
			}
		}
	}
}

// TestDirectGivenUp: a writer goes on that has given up, meanwhile, what the server was handed, and that is not appended.
func TestDirectGivenUp(t *testing.T) {
	eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
		handed, err := d.w.HandOver(d.ctx, large(100))
		require.NoError(t, err)
		require.True(t, handed)
		d.append(1)
		d.append(100)
		d.whole()
	})
}

// TestDirectLeft: where what was begun is given up before it is answered, since its time is over, the writer goes on.
func TestDirectLeft(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{RetryFor: time.Nanosecond})
	f.append(w, 1)
	ctx, cancel := context.WithTimeout(f.ctx, soon)
	defer cancel()
	var wg sync.WaitGroup
	for range 150 {
		wg.Go(func() {
			for range 20 {
				if _, err := w.Append(ctx, codec.Message{}); err != nil && !tier.OutcomeUnknown(err) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, ctx.Err())
}

// TestDirectTakenOut: where a transaction gives ids that a script would not have given, or what it has seen is not so any
// more, its messages go by the script, and nothing shows.
func TestDirectTakenOut(t *testing.T) {
	for name, upset := range map[string]func(d *direct){
		"the top is ahead of the clock": func(d *direct) {
			d.do("XSETID", d.log(), fmt.Sprintf("%d-4040", d.now().Add(time.Hour).UnixMilli()))
		},
		"the second of many packs begins a millisecond": func(d *direct) {
			d.do("XSETID", d.log(), fmt.Sprintf("%d-4000", d.now().Add(time.Hour).UnixMilli()))
			d.append(5)
			d.append(300)
		},
		"the last pack begins a millisecond": func(d *direct) {
			d.do("XSETID", d.log(), fmt.Sprintf("%d-4000", d.now().Add(time.Hour).UnixMilli()))
			d.append(5)
			d.append(2 * directPack)
		},
		"a foreign writer's sequences are beyond ours": func(d *direct) {
			d.do("XSETID", d.log(), fmt.Sprintf("%d-70000", d.now().Add(time.Hour).UnixMilli()))
		},
		"a foreign writer is at a millisecond's last sequences": func(d *direct) {
			d.do("XSETID", d.log(), fmt.Sprintf("%d-18446744073709551600", d.now().Add(time.Hour).UnixMilli()))
		},
		"the producer is not known any more": func(d *direct) {
			d.do("DEL", d.addr().ProducerKey(d.producer()))
		},
		"a later call has gone through": func(d *direct) {
			key := d.addr().ProducerKey(d.producer())
			d.do("SET", key, "1"+d.text("GET", key))
		},
		"the scope was written to":         func(d *direct) { d.do("HSET", tier.ScopeKey(d.addr().Scope), "x", "y") },
		"the script is not known any more": func(d *direct) { d.do("SCRIPT", "FLUSH") },
		"one of the scripts is not known any more": func(d *direct) {
			d.do("SCRIPT", "FLUSH")
			d.load(sources(d.t)["room"])
		},
		"the log is gone": func(d *direct) {
			d.do("DEL", d.log())
			d.ids = nil
		},
		"the log is an older one": func(d *direct) {
			older, there := d.text("DUMP", d.log()), len(d.ids)
			d.do("XSETID", d.log(), fmt.Sprintf("%d-10", d.now().Add(time.Hour).UnixMilli()))
			d.append(5)
			d.append(100)
			d.do("RESTORE", d.log(), "0", older, "REPLACE")
			d.ids = d.ids[:there]
		},
		"all was trimmed": func(d *direct) {
			d.do("XTRIM", d.log(), "MAXLEN", "0")
			d.do("XSETID", d.log(), d.text("XADD", d.log(), "NOMKSTREAM", "*", "f", "v"), "ENTRIESADDED", "1", "MAXDELETEDID", "0-0")
			d.do("XTRIM", d.log(), "MAXLEN", "0")
			d.ids = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
				upset(d)
				before, now := d.ids, d.now()
				d.append(120)
				got := d.all()
				if name == "the log is gone" { // a new one begins ahead of the clock: what is gone may have given ids up to here
					require.Greater(t, int64(got[0].Addr.Ms), now.UnixMilli()+1)
				}
				requireAscending(t, got)
				requireSame(t, d.ids, idsOf(got))
				if len(before) > 0 {
					d.whole()
				}
			})
		})
	}
}

// TestDirectLate (B74): a transaction that comes when its messages are in the log already, by the scripts, appends nothing, and its receipt is that
// of the scripts.
func TestDirectLate(t *testing.T) {
	eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
		scope := tier.ScopeKey(d.addr().Scope)
		key := d.addr().ProducerKey(d.producer())
		number, _, _ := strings.Cut(d.text("GET", key), " ")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		message, err := codec.AppendMessage(nil, &codec.Message{})
		require.NoError(t, err)
		name, messages := "append", slices.Repeat([]string{string(message)}, 120)
		if d.pack > 1 {
			name, messages = "pack", nil
			for size := range slices.Values([]int{d.pack, d.pack, 20}) {
				pack, err := codec.AppendPack(nil, size, bytes.Repeat(message, size), codec.NoCompression)
				require.NoError(t, err)
				messages = append(messages, strconv.Itoa(size), string(pack))
			}
		}
		field := tier.StreamField(d.addr().Stream)
		_, err = d.client.Run(d.ctx, tier.Call{Script: script(t, name), Keys: []string{d.log(), key, scope}, Args: append([]string{
			strconv.Itoa(n + 1), "600000", d.text("HGET", scope, "node"), field, d.text("HGET", scope, field), "0-0", "", "7",
		}, messages...)})
		require.NoError(t, err)
		there, transactions := d.length(), d.transactions()
		d.append(120)
		require.Equal(t, there, d.length())
		require.Equal(t, transactions+1, d.transactions())
		d.whole()
	})
}

// producer is the name of the one producer that has appended.
func (f *fixture) producer() string {
	f.t.Helper()
	prefix := f.addr().ProducerKey("")
	keys, err := f.client.KeysBelow(f.ctx, "emq:{"+f.addr().Scope+"}")
	require.NoError(f.t, err)
	for _, key := range keys {
		if name, found := strings.CutPrefix(key, prefix); found {
			return name
		}
	}
	require.Fail(f.t, "no producer")
	return ""
}

// TestDirectToARemovedStream: nothing is appended to a stream that was removed, or to one that another has taken its place.
func TestDirectToARemovedStream(t *testing.T) {
	eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
		_, err := stream.Remove(d.ctx, d.client, d.address)
		require.NoError(t, err)
		_, err = d.w.AppendBatch(d.ctx, large(120))
		require.ErrorIs(t, err, stream.ErrStreamRemoved)
		require.Equal(t, "0", d.text("EXISTS", d.log()))
	})
}

// TestDirectWithoutRights: who may not do what a transaction and its receipt need, appends by scripts.
func TestDirectWithoutRights(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	for _, right := range []string{"multi", "exec", "eval", "xdel", "xrevrange", "del"} {
		for _, pack := range []int{1, directPack} {
			t.Run(right+strconv.Itoa(pack), func(t *testing.T) {
				u := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all", "-"+right)
				f := setUpWith(t, s, tiertest.Dial(t, addressed(u.At(s))))
				d := &direct{fixture: f, w: f.writer(stream.WriterConfig{Pack: pack})}
				switch {
				case right == "eval":
					f.load(sources(t)["append"])
					f.load(sources(t)["pack"])
					f.load(sources(t)["room"])
					f.load(sources(t)["follow"])
					f.load(sources(t)["claim_scope"])
					f.load(sources(t)["declare"])
				case right == "xdel" && pack == 1, right == "xrevrange" && pack > 1:
					return // of the script, too
				}
				d.append(1)
				for range 3 {
					d.append(120)
				}
				d.whole()
			})
		}
	}
}

// TestDirectAfterScriptFlush: a server that does not know the script of packs any more, or is another one, is told it again: else
// each transaction would be taken out.
func TestDirectAfterScriptFlush(t *testing.T) {
	eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
		d.do("SCRIPT", "FLUSH")
		if d.pack == 1 { // which does without
			before := d.transactions()
			d.append(120)
			require.Equal(t, before+1, d.transactions())
			d.whole()
			return
		}
		tiertest.Eventually(t, soon, func() (bool, string) {
			d.append(120)
			known, err := d.raw().Do(d.ctx, d.raw().B().ScriptExists().Sha1(script(t, "room").Digest()).Build()).AsIntSlice()
			require.NoError(t, err)
			return known[0] == 1, "it is not told"
		})
		d.whole()
	})
}

// TestDirectPacksBegin: the first call, which is a script's, has one pack, whatever waits.
func TestDirectPacksBegin(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{Pack: directPack})
	_, err := w.Declare(f.ctx)
	require.NoError(t, err)
	defer f.run(w)()
	appends := sources(t)["pack"].Runs()
	words := make(chan int, 100)
	proxy.DropRequests(1, func(cmd []string) bool {
		if appends(cmd) {
			words <- len(cmd)
		}
		return false
	})
	for _, m := range large(20 * directPack) {
		require.NoError(t, w.Publish(f.ctx, m, nil))
	}
	require.NoError(t, w.Flush(f.ctx))
	require.LessOrEqual(t, <-words, 3+3+8+2) // EVALSHA, its digest and number of keys; the keys; what comes before packs; size and bytes
	require.Positive(t, f.calls("exec"))
}

// TestDirectPacksRoll: whichever pack of a call takes a millisecond's last sequence, or would need one more, the ids in the log are the
// receipt's, and nothing had to be taken out.
func TestDirectPacksRoll(t *testing.T) {
	for name, before := range map[string]int{"first": directPack, "second": 2 * directPack, "last": 2*directPack + 20, "last, of one": 2*directPack + 1} {
		for more := range 2 {
			t.Run(fmt.Sprintf("%s, %d more", name, more), func(t *testing.T) {
				t.Parallel()
				f := setUp(t, tiertest.Private(t, tiertest.Valkey))
				d := &direct{fixture: f, w: f.writer(stream.WriterConfig{Pack: directPack})}
				d.append(1)
				d.append(100)
				d.do("XSETID", d.log(), fmt.Sprintf("%d-%d", d.now().Add(time.Hour).UnixMilli(), codec.MaxSeq-5-before+more))
				d.append(5) // by a script, which goes above that
				transactions := d.transactions()
				for range 2 {
					d.append(max(before, 2*directPack+1))
				}
				d.whole()
				require.Equal(t, transactions+2, d.transactions())
				last := d.all()[106+before-1].Addr.Seq
				require.EqualValues(t, []int{codec.MaxSeq, (before - 1) % directPack}[more], last)
			})
		}
	}
}

// TestDirectInParts: what waits does not go at once, but as much at a time as a server's CPU has at hand.
func TestDirectInParts(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	d := &direct{fixture: f, w: f.writer(stream.WriterConfig{})}
	d.append(1)
	d.append(100)
	defer f.run(d.w)()
	publish := func(n int) {
		for range n {
			if err := d.w.Publish(f.ctx, codec.Message{Data: make([]byte, 10<<10)}, nil); err != nil {
				t.Error(err)
			}
		}
	}
	var size, most atomic.Int64
	more := sync.OnceFunc(func() { publish(400) })
	proxy.DropRequests(1, func(cmd []string) bool {
		switch cmd[0] {
		case "XADD":
			size.Add(int64(len(cmd[len(cmd)-1])))
		case "EXEC":
			most.Store(max(most.Load(), size.Swap(0)))
			more()
		}
		return false
	})
	publish(50)
	require.NoError(t, d.w.Flush(f.ctx))
	require.NoError(t, d.w.Flush(f.ctx))
	require.Less(t, most.Load(), int64(5<<19)) // of one, and of the next that is handed over meanwhile
	require.Equal(t, "551", d.length())
}

// TestDirectTells: whoever opens a transaction, which may take long, has told the callers of what is in the log.
func TestDirectTells(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	_, err := w.Declare(f.ctx)
	require.NoError(t, err)
	defer f.run(w)()
	publish := func(m codec.Message, done func(codec.ID, error)) {
		if err := w.Publish(f.ctx, m, done); err != nil {
			t.Error(err)
		}
	}
	appends, opens := sources(t)["append"].Runs(), sources(t)["room"].Runs()
	var told atomic.Bool
	opened := make(chan bool, 2)
	more := sync.OnceFunc(func() {
		for _, m := range large(100) {
			publish(m, nil)
		}
	})
	proxy.DropRequests(1, func(cmd []string) bool {
		switch {
		case appends(cmd):
			more()
		case opens(cmd):
			opened <- told.Load()
		}
		return false
	})
	publish(codec.Message{}, func(codec.ID, error) { told.Store(true) })
	require.True(t, <-opened)
}

// TestDirectRightsTakenAway: what is in the log without a receipt is not said not to be.
func TestDirectRightsTakenAway(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	for _, pack := range []int{1, directPack} {
		t.Run(strconv.Itoa(pack), func(t *testing.T) {
			u := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
			d := &direct{fixture: setUpWith(t, s, tiertest.Dial(t, addressed(u.At(s))))}
			d.w = d.writer(stream.WriterConfig{Pack: pack})
			d.append(1)
			d.append(100)
			before := d.length()
			u.Grant(t, []*tiertest.Server{s}, "-get") // which scripts ask for
			_, err := d.w.AppendBatch(d.ctx, large(120))
			require.NotEqual(t, before, d.length())
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
		})
	}
}

// TestAppendRightsTakenAway: the same of a call by a script, which asks for rights in a producer's first call only.
func TestAppendRightsTakenAway(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	for _, pack := range []int{1, 2} {
		for right, partly := range map[string]bool{"-set": true, "-xadd": false} {
			t.Run(fmt.Sprint(right, pack), func(t *testing.T) {
				u := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
				f := setUpWith(t, s, tiertest.Dial(t, addressed(u.At(s))))
				w := f.writer(stream.WriterConfig{Pack: pack})
				f.append(w, 2)
				before := f.length()
				u.Grant(t, []*tiertest.Server{s}, right)
				_, err := w.AppendBatch(f.ctx, messages(2))
				require.ErrorIs(t, err, tier.ErrPermission)
				require.Equal(t, partly, f.length() != before)
				require.Equal(t, partly, tier.OutcomeUnknown(err), "%v", err)
			})
		}
	}
}

// TestDirectRightsTakenAwayMeanwhile: what was handed over and may not be added any more is not, and nothing else is taken out in its place.
func TestDirectRightsTakenAwayMeanwhile(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	for _, pack := range []int{1, directPack} {
		t.Run(strconv.Itoa(pack), func(t *testing.T) {
			u := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
			proxy := tiertest.NewProxy(t, s)
			d := &direct{fixture: setUpWith(t, s, tiertest.Dial(t, addressed(u.At(proxy))))}
			d.w = d.writer(stream.WriterConfig{Pack: pack})
			d.append(1)
			d.append(200)
			proxy.DropRequests(1, func(cmd []string) bool {
				if cmd[0] == "EXEC" {
					u.Grant(t, []*tiertest.Server{s}, "-xadd")
				}
				return false
			})
			_, err := d.w.AppendBatch(d.ctx, large(120))
			require.ErrorIs(t, err, tier.ErrPermission)
			require.False(t, tier.OutcomeUnknown(err), "%v", err)
			d.whole()
		})
	}
}

// TestDirectWithoutIDs: where the log takes no entry any more, a transaction takes none out.
func TestDirectWithoutIDs(t *testing.T) {
	eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
		d.do("XADD", d.log(), "18446744073709551615-18446744073709551615", "f", "v")
		before := d.length()
		_, err := d.w.AppendBatch(d.ctx, large(120))
		require.ErrorIs(t, err, stream.ErrIDSpace)
		require.Equal(t, before, d.length())
	})
}

// TestDirectToAFullServer: nothing of it is written, and the caller is told.
func TestDirectToAFullServer(t *testing.T) {
	eachDirect(t, tiertest.Valkey, func(t *testing.T, d *direct) {
		d.fill(true)
		_, err := d.w.AppendBatch(d.ctx, large(120))
		d.fill(false)
		require.ErrorIs(t, err, tier.ErrStoreFull)
		d.whole()
		d.append(120)
		d.whole()
	})
}

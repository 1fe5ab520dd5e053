package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// producing drives append.lua or pack.lua past the writer.
type producing struct {
	*fixture
	script   *tier.Script
	producer string
	identity codec.Identity
	keep     int // receipts of calls before this one
}

func produce(f *fixture, name string) *producing {
	id, err := f.writer(stream.WriterConfig{Brand: "ORD"}).Declare(f.ctx)
	require.NoError(f.t, err)
	return &producing{fixture: f, script: script(f.t, name), producer: "p", identity: id, keep: 7}
}

// call appends two messages under a number and answers {code, first id, count, size}.
func (p *producing) call(number uint64, ttl time.Duration) [4]string {
	p.t.Helper()
	args := []string{
		strconv.FormatUint(number, 10), strconv.FormatInt(ttl.Milliseconds(), 10),
		strconv.Itoa(p.identity.Node), tier.StreamField("orders"), string(p.identity.Brand), "0-0", "", strconv.Itoa(p.keep),
	}
	one := encoded(p.t, "k")
	if p.script.Name == "pack" {
		body, err := codec.AppendPack(nil, 2, []byte(one+one), codec.NoCompression)
		require.NoError(p.t, err)
		args = append(args, "2", string(body))
	} else {
		args = append(args, one, one)
	}
	m, err := p.client.Run(p.ctx, tier.Call{
		Script: p.script, Args: args,
		Keys: []string{p.log(), p.addr().ProducerKey(p.producer), tier.ScopeKey(p.addr().Scope)},
	})
	require.NoError(p.t, err)
	reply, err := m.ToArray()
	require.NoError(p.t, err)
	require.Len(p.t, reply, 4)
	var out [4]string
	for i := range reply {
		if out[i], err = reply[i].ToString(); err != nil {
			n, err := reply[i].AsInt64()
			require.NoError(p.t, err)
			out[i] = strconv.FormatInt(n, 10)
		}
	}
	return out
}

// refuses: the call answers a code and changes nothing.
func (p *producing) refuses(code string, number uint64, ttl time.Duration) {
	p.t.Helper()
	before := p.dump()
	require.Equal(p.t, [4]string{code, "", "0", "0"}, p.call(number, ttl))
	require.Equal(p.t, before, p.dump())
}

// dump is all that a refused call must leave alone.
func (p *producing) dump() []string {
	p.t.Helper()
	key := p.addr().ProducerKey(p.producer)
	return []string{p.text("DUMP", p.log()), p.text("DUMP", key), p.text("DUMP", tier.ScopeKey(p.addr().Scope))}
}

func eachAppendScript(t *testing.T, f func(t *testing.T, p *producing)) {
	for _, name := range []string{"append", "pack"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) { f(t, produce(setUp(t, s), name)) })
		})
	}
}

const ttl = 10 * time.Minute

// TestProducer: the next number is accepted, each of the last eight answers its receipt, the rest is refused with
// nothing written.
func TestProducer(t *testing.T) {
	eachAppendScript(t, func(t *testing.T, p *producing) {
		p.refuses("unknown", 2, ttl)
		p.refuses("unknown", 0, ttl)
		require.Equal(t, "0", p.text("EXISTS", p.log()))
		var receipts [][4]string
		for number := uint64(1); number <= 20; number++ {
			p.refuses2(number+1, len(receipts)) // a gap
			got := p.call(number, ttl)
			require.Equal(t, "ok", got[0])
			require.Equal(t, "2", got[2])
			receipts = append(receipts, got)
			require.Len(t, p.all(), 2*int(number))
			for back := range number {
				n := number - back
				if back >= 8 {
					p.refuses("order", n, ttl)
					continue
				}
				before := p.dump()
				want := receipts[n-1]
				want[0] = "dup"
				require.Equal(t, want, p.call(n, ttl), "%d back", back)
				require.Equal(t, before, p.dump())
			}
		}
		left, err := strconv.ParseInt(p.text("PTTL", p.addr().ProducerKey(p.producer)), 10, 64)
		require.NoError(t, err)
		require.InDelta(t, ttl.Milliseconds(), left, 60_000)

		firsts := p.all()
		for i, r := range receipts {
			require.Equal(t, firsts[2*i].Addr.String(), r[1])
		}
		for p.keep = range 3 { // of the receipts only those that were asked for
			number := uint64(21 + p.keep)
			require.Equal(t, "ok", p.call(number, ttl)[0])
			for back := range uint64(3) {
				if back > uint64(p.keep) {
					p.refuses("order", number-back, ttl)
				} else {
					require.Equal(t, "dup", p.call(number-back, ttl)[0], "%d back, %d kept", back, p.keep)
				}
			}
		}
		p.text("DEL", p.addr().ProducerKey(p.producer))
		p.refuses("unknown", 24, ttl)
	})
}

// refuses2 is refuses for a gap: of a producer that has begun, or not.
func (p *producing) refuses2(number uint64, calls int) {
	p.t.Helper()
	if calls == 0 {
		p.refuses("unknown", number, ttl)
	} else {
		p.refuses("order", number, ttl)
	}
}

// TestNamedProducer: numbers may leave gaps and grow; at or below the last they are answered or refused.
func TestNamedProducer(t *testing.T) {
	eachAppendScript(t, func(t *testing.T, p *producing) {
		numbers := []uint64{5, 6, 100, 1<<53 - 3, 1<<53 - 2, 1<<53 - 1}
		receipts := map[uint64][4]string{}
		for i, n := range numbers {
			receipts[n] = p.call(n, 0)
			require.Equal(t, "ok", receipts[n][0])
			for _, back := range numbers[:i+1] {
				want := receipts[back]
				want[0] = "dup"
				require.Equal(t, want, p.call(back, 0))
			}
			p.refuses("past", 4, 0)
			p.refuses("past", 1, 0)
			require.Len(t, p.all(), 2*(i+1))
		}
		p.refuses("past", 99, 0)
		require.Equal(t, "-1", p.text("PTTL", p.addr().ProducerKey(p.producer)))
	})
}

// TestAppendChecksTheDeclaration: what would get ids of another stream, or of a removed one, is not written.
func TestAppendChecksTheDeclaration(t *testing.T) {
	eachAppendScript(t, func(t *testing.T, p *producing) {
		require.Equal(t, "ok", p.call(1, ttl)[0])
		declared := p.identity
		p.identity.Node = (declared.Node + 1) % 512
		p.refuses("undeclared", 2, ttl)
		p.identity = codec.Identity{Brand: "XYZ", Node: declared.Node}
		p.refuses("undeclared", 2, ttl)
		p.identity = declared
		p.do("HSET", tier.ScopeKey(p.addr().Scope), "stream:orders", "-ORD")
		p.refuses("removed", 2, ttl)
		p.do("HSET", tier.ScopeKey(p.addr().Scope), "stream:orders", "ORD")
		require.Equal(t, "ok", p.call(2, ttl)[0])
	})
}

// TestAppendAt: a named producer appends exactly once by its source's position, after a restart too.
func TestAppendAt(t *testing.T) {
	for _, pack := range []int{1, 3} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				cfg := stream.WriterConfig{Producer: "importer", Pack: pack}
				w := f.writer(cfg)
				receipts := map[uint64][]codec.ID{}
				at := func(position uint64, n int) ([]codec.ID, error) {
					return w.AppendAt(f.ctx, position, messages(n))
				}
				var want []codec.ID
				for i, position := range []uint64{3, 10, 11, 500, 501, 502, 503, 504, 505, 506} {
					ids, err := at(position, i+1)
					require.NoError(t, err)
					receipts[position] = ids
					want = append(want, ids...)
				}
				for range 2 { // the second time as a new process
					for i, position := range []uint64{11, 500, 501, 502, 503, 504, 505, 506} {
						ids, err := at(position, i+3)
						require.NoError(t, err)
						requireSame(t, receipts[position], ids)
					}
					for _, position := range []uint64{1, 3, 10, 12, 499} {
						_, err := at(position, 2)
						require.ErrorIs(t, err, stream.ErrAlreadyAppended)
						require.False(t, tier.OutcomeUnknown(err))
					}
					_, err := at(506, 2)
					require.ErrorIs(t, err, stream.ErrPositionReused)
					requireSame(t, want, idsOf(f.all()))
					w = f.writer(cfg)
				}
				ids, err := at(507, 1)
				require.NoError(t, err)
				requireSame(t, append(want, ids...), idsOf(f.all()))
			})
		})
	}
}

// TestAppendAfter: of two processes that append under one name from one position on, cut in different places, one has its call
// appended, and the other one's is refused; a repetition is answered as before, and so is a call that follows none.
func TestAppendAfter(t *testing.T) {
	for name, cfg := range map[string]stream.WriterConfig{"plain": {Producer: "p"}, "packs": {Producer: "p", Pack: 3}, "keyed": {Producer: "p", Keyed: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				one, other := f.writer(cfg), f.writer(cfg)
				first, err := one.AppendAfter(f.ctx, 0, 10, keyedMessages("a", "b"))
				require.NoError(t, err)
				_, err = other.AppendAfter(f.ctx, 0, 500, keyedMessages("a", "b", "c"))
				require.ErrorIs(t, err, stream.ErrProducerMoved)
				require.False(t, tier.OutcomeUnknown(err))
				_, err = other.AppendAfter(f.ctx, 11, 500, keyedMessages("c"))
				require.ErrorIs(t, err, stream.ErrProducerMoved)
				_, err = other.AppendAfter(f.ctx, 0, 9, keyedMessages("a"))
				require.ErrorIs(t, err, stream.ErrAlreadyAppended)
				again, err := other.AppendAfter(f.ctx, 0, 10, keyedMessages("a", "b"))
				require.NoError(t, err)
				requireSame(t, first, again)
				last, err := other.AppendAfter(f.ctx, 10, 500, keyedMessages("c"))
				require.NoError(t, err)
				requireSame(t, append(first, last...), idsOf(f.all()))
				any, err := one.AppendAt(f.ctx, 700, keyedMessages("d"))
				require.NoError(t, err)
				f.do("DEL", f.addr().ProducerKey("p"))
				_, err = other.AppendAfter(f.ctx, 700, 701, keyedMessages("e"))
				require.ErrorIs(t, err, stream.ErrProducerMoved)
				requireSame(t, append(append(first, last...), any...), idsOf(f.all()))
			})
		})
	}
}

// TestAppendAtIsNotOvertaken: when a position fails, what waits behind it is not sent, since it could not be appended
// after a later one.
func TestAppendAtIsNotOvertaken(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{Producer: "importer"})
	_, err := w.AppendAt(f.ctx, 1, messages(1))
	require.NoError(t, err)
	f.fill(true)
	proxy.Freeze()
	results := make(chan error, 2)
	at := func(position uint64) {
		_, err := w.AppendAt(f.ctx, position, messages(1))
		results <- err
	}
	go at(2)
	tiertest.Eventually(t, soon, func() (bool, string) { return w.Busy() && w.Queued() == 0, "position 2 was not sent" })
	go at(3)
	tiertest.Eventually(t, soon, func() (bool, string) { return w.Queued() == 1, "position 3 does not wait" })
	proxy.Thaw()
	errs := []error{<-results, <-results}
	if !errors.Is(errs[0], tier.ErrStoreFull) {
		slices.Reverse(errs)
	}
	require.ErrorIs(t, errs[0], tier.ErrStoreFull)
	require.ErrorContains(t, errs[1], "not sent")
	require.False(t, tier.OutcomeUnknown(errs[1]))
	f.fill(false)
	for position := range uint64(2) {
		_, err := w.AppendAt(f.ctx, 2+position, messages(1))
		require.NoError(t, err)
	}
	require.Len(t, f.all(), 3)
}

// TestAppendAtIsNotOvertakenLater: nor is it sent when the position before it is given up between two tries, or by its
// caller before it was sent.
func TestAppendAtIsNotOvertakenLater(t *testing.T) {
	t.Parallel()
	ways := map[string]func(proxy *tiertest.Proxy, cancel func(), third chan error){
		"outage": func(*tiertest.Proxy, func(), chan error) {},
		"cancelled": func(proxy *tiertest.Proxy, cancel func(), third chan error) {
			cancel()
			third <- <-third // it has stopped waiting
			proxy.Refuse(false)
		},
	}
	for name, way := range ways {
		f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
		w := f.writer(stream.WriterConfig{Producer: "importer", RetryFor: time.Second})
		_, err := w.AppendAt(f.ctx, 1, messages(1))
		require.NoError(t, err)
		proxy.Refuse(true)
		proxy.Cut()
		results := make([]chan error, 5)
		at := func(ctx context.Context, position uint64) {
			results[position] = make(chan error, 1)
			go func() {
				_, err := w.AppendAt(ctx, position, messages(1))
				results[position] <- err
			}()
		}
		at(f.ctx, 2)
		tiertest.Eventually(t, soon, func() (bool, string) { return w.Busy() && w.Queued() == 0, "position 2 was not sent" })
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		at(ctx, 3)
		tiertest.Eventually(t, soon, func() (bool, string) { return w.Queued() == 1, "position 3 does not wait" })
		at(f.ctx, 4)
		tiertest.Eventually(t, soon, func() (bool, string) { return w.Queued() == 2, "position 4 does not wait" })
		way(proxy, cancel, results[3])
		for position := 2; position <= 4; position++ {
			err := <-results[position]
			if position > 2 {
				require.ErrorContains(t, err, "not sent", "%s: %d", name, position)
				require.False(t, tier.OutcomeUnknown(err))
			}
		}
		proxy.Refuse(false)
		for position := uint64(2); position <= 4; position++ {
			_, err := w.AppendAt(f.ctx, position, messages(1))
			require.NoError(t, err, "%s: %d", name, position)
		}
		require.Len(t, f.all(), 4)
	}
}

// TestAppendAtGoesOnBehindWhatIsThere: a position that is in the log already fails nobody but its caller.
func TestAppendAtGoesOnBehindWhatIsThere(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{Producer: "importer"})
	for position := range uint64(9) {
		_, err := w.AppendAt(f.ctx, position+1, messages(1))
		require.NoError(t, err)
	}
	proxy.Freeze()
	results := make([]chan error, 2)
	for i, position := range []uint64{1, 10} {
		results[i] = make(chan error, 1)
		go func() {
			_, err := w.AppendAt(f.ctx, position, messages(1))
			results[i] <- err
		}()
		tiertest.Eventually(t, soon, func() (bool, string) { return w.Busy() && w.Queued() == i, "it does not wait" })
	}
	proxy.Thaw()
	require.ErrorIs(t, <-results[0], stream.ErrAlreadyAppended)
	require.NoError(t, <-results[1])
}

// TestAppendAtAnswersTheIDsOfThen: a repeated position is answered with the ids that its messages have, however they
// were packed when they were appended.
func TestAppendAtAnswersTheIDsOfThen(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 1)
		f.do("XSETID", f.log(), fmt.Sprintf("%d-4000", f.now().Add(time.Hour).UnixMilli())) // 95 fit into the millisecond
		packs := []int{7, 1, 100}
		var want [][]codec.ID
		for i, pack := range packs {
			ids, err := f.writer(stream.WriterConfig{Producer: "importer", Pack: pack}).AppendAt(f.ctx, uint64(i+1), messages(4000))
			require.NoError(t, err)
			want = append(want, ids)
		}
		for _, pack := range packs {
			w := f.writer(stream.WriterConfig{Producer: "importer", Pack: pack})
			for i := range want {
				ids, err := w.AppendAt(f.ctx, uint64(i+1), messages(4000))
				require.NoError(t, err)
				requireSame(t, want[i], ids)
			}
		}
	})
}

// TestBadCalls are refused before anything is sent.
func TestBadCalls(t *testing.T) {
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	named, plain := f.writer(stream.WriterConfig{Producer: "importer"}), f.writer(stream.WriterConfig{})
	calls := map[string]func() error{
		"Append by a named producer":         func() error { _, err := named.Append(f.ctx, codec.Message{}); return err },
		"AppendBatch by a named producer":    func() error { _, err := named.AppendBatch(f.ctx, messages(2)); return err },
		"Publish by a named producer":        func() error { return named.Publish(f.ctx, codec.Message{}, nil) },
		"AppendAt without a name":            func() error { _, err := plain.AppendAt(f.ctx, 1, messages(1)); return err },
		"AppendAt at 0":                      func() error { _, err := named.AppendAt(f.ctx, 0, messages(1)); return err },
		"AppendAfter without a name":         func() error { _, err := plain.AppendAfter(f.ctx, 0, 1, messages(1)); return err },
		"AppendAfter itself":                 func() error { _, err := named.AppendAfter(f.ctx, 1, 1, messages(1)); return err },
		"AppendAfter beyond what Lua counts": func() error { _, err := named.AppendAfter(f.ctx, 1, 1<<53, messages(1)); return err },
		"AppendAt beyond what Lua counts":    func() error { _, err := named.AppendAt(f.ctx, 1<<53, messages(1)); return err },
		"Publish of a writer that runs not":  func() error { return plain.Publish(f.ctx, codec.Message{}, nil) },
	}
	before := proxy.Commands()
	for name, call := range calls {
		err := call()
		require.Error(t, err, name)
		require.True(t, errorsIsAny(err, stream.ErrBadCall, stream.ErrNotRunning), "%s: %v", name, err)
		require.False(t, tier.OutcomeUnknown(err), name)
	}
	require.Equal(t, before, proxy.Commands())
}

// TestAppendAtGoesOneByOne: of positions that wait together, the second is not sent before the first is answered, and not
// at all when the first is refused.
func TestAppendAtGoesOneByOne(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{Producer: "importer"})
	_, err := w.AppendAt(f.ctx, 2, messages(1))
	require.NoError(t, err)
	before := proxy.Commands()["EVALSHA"]
	proxy.Freeze()
	at := func(position uint64, n int) chan error {
		result := make(chan error, 1)
		go func() {
			_, err := w.AppendAt(f.ctx, position, messages(n))
			result <- err
		}()
		return result
	}
	sent := at(10, 1)
	tiertest.Eventually(t, soon, func() (bool, string) { return proxy.Commands()["EVALSHA"] > before, "not sent" })
	reused := at(2, 2)
	f.queued(w, 2)
	behind := at(11, 1)
	f.queued(w, 3)
	proxy.Thaw()
	require.NoError(t, <-sent)
	require.ErrorIs(t, <-reused, stream.ErrPositionReused)
	err = <-behind
	require.ErrorContains(t, err, "not sent")
	require.False(t, tier.OutcomeUnknown(err))
	require.Len(t, f.all(), 2)
}

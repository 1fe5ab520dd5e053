package stream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// nth matches the nth call, from 1, of those that match.
func nth(n int, match func([]string) bool) func([]string) bool {
	return func(cmd []string) bool {
		if match(cmd) {
			n--
			return n == 0
		}
		return false
	}
}

// appends: a script, or what a transaction notes a receipt with.
func appends(cmd []string) bool {
	return (cmd[0] == "EVALSHA" && len(cmd) >= 12 || cmd[0] == "EVAL" && len(cmd) == 16) && cmd[2] == "3"
}

// TestLostReply (B74): when the reply to an append is lost after the write, or the request before it, the writer repeats
// it: one copy of each message stands in the log, and the caller's ids are those in the log.
func TestLostReply(t *testing.T) {
	type fault struct {
		name   string
		inject func(*tiertest.Proxy, int, func([]string) bool)
	}
	faults := []fault{{"reply", (*tiertest.Proxy).DropReplies}, {"request", (*tiertest.Proxy).DropRequests}}
	singles := []tiertest.Kind{tiertest.Valkey, tiertest.Redis}
	for _, kind := range singles {
		for _, pack := range []int{1, 50} {
			for _, fault := range faults {
				for _, n := range []int{1, 500, 4096} {
					t.Run(fmt.Sprintf("%s, pack %d, a batch of %d, %s lost", kind, pack, n, fault.name), func(t *testing.T) {
						t.Parallel()
						f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
						w := f.writer(stream.WriterConfig{Pack: pack})
						f.append(w, 0)
						want := f.append(f.writer(stream.WriterConfig{Pack: pack}), 2) // the script is known, the stream declared
						for _, times := range []int{1, 3} {
							fault.inject(proxy, times, appends)
							want = append(want, f.append(w, n)...)
						}
						require.Equal(t, 4, proxy.Dropped())
						got := f.all()
						requireAscending(t, got)
						requireSame(t, want, idsOf(got))
					})
				}
				calls, of, losses := 8, 4096, []int{1, 2, 5, 8} // all in one write
				if pack == 1 {
					calls, of, losses = 2, 2048, []int{1, 2} // a write each
				}
				for _, lost := range losses {
					t.Run(fmt.Sprintf("%s, pack %d, %s %d of %d lost", kind, pack, fault.name, lost, calls), func(t *testing.T) {
						t.Parallel()
						f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
						w := f.writer(stream.WriterConfig{Pack: pack})
						_, err := w.Declare(f.ctx)
						require.NoError(t, err)
						f.load(sources(t)["append"])
						f.load(sources(t)["pack"])
						stop := f.run(w)
						n := 1 + calls*of
						proxy.Freeze() // so that all but the first are queued when the next round begins
						fault.inject(proxy, 1, nth(1+lost, appends))
						o := f.publish(w, n)
						proxy.Thaw()
						require.NoError(t, w.Flush(f.ctx))
						stop()
						require.Equal(t, 1, proxy.Dropped())
						require.Equal(t, make([]error, n), o.errs)
						requireCounted(t, o.ids, f.all())
						require.IsIncreasing(t, o.n)
					})
				}
			}
		}
	}
}

// TestLostReplyOfSeveral (B74): the same of large messages, of which four calls go in one write.
func TestLostReplyOfSeveral(t *testing.T) {
	const write, call, size = 4, 3, 300_000
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, lost := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s, reply %d of %d lost", kind, lost, write), func(t *testing.T) {
				t.Parallel()
				f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
				w := f.writer(stream.WriterConfig{})
				f.append(f.writer(stream.WriterConfig{}), 1) // the stream is declared
				f.load(sources(t)["append"])
				stop := f.run(w)
				proxy.Freeze() // so that all but the first are queued when the next round begins
				proxy.DropReplies(1, nth(1+lost, appends))
				var o outcomes
				publish := func(i, size int) {
					m := codec.Message{Data: make([]byte, size)}
					m.Data[0] = byte(i)
					require.NoError(t, w.Publish(f.ctx, m, o.of(i)))
				}
				publish(0, 1)
				tiertest.Eventually(t, soon, func() (bool, string) { return w.Queued() == 0, "the first one waits" })
				const n = 1 + 2*write*call
				for i := 1; i < n; i++ {
					publish(i, size)
				}
				proxy.Thaw()
				require.NoError(t, w.Flush(f.ctx))
				stop()
				require.Equal(t, 1, proxy.Dropped())
				require.Equal(t, make([]error, n), o.errs)
				got := f.all()[1:]
				requireAscending(t, got)
				requireSame(t, o.ids, idsOf(got))
				for i := range got {
					require.EqualValues(t, i, got[i].Data[0])
				}
			})
		}
	}
}

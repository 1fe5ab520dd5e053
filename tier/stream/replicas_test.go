package stream_test

import (
	"fmt"
	"net"
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

// TestReplicasMissing: without the replicas that a writer wants, its appends end with ErrNotReplicated, of unknown
// outcome, and stand once: the repetitions had no effect.
func TestReplicasMissing(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.client = patient(t, s, time.Second) // a third of it is the longest wait
		f.append(f.writer(stream.WriterConfig{Brand: "EVT"}), 1)
		e := f.at("events")
		cfg := stream.WriterConfig{Replicas: 1, RetryFor: time.Second}
		mint := f.mint()
		appends := map[string]func() error{
			"plain": func() error { _, err := f.writer(cfg).AppendBatch(f.ctx, messages(2)); return err },
			"packed": func() error {
				cfg := cfg
				cfg.Pack = 2
				_, err := f.writer(cfg).AppendBatch(f.ctx, messages(2))
				return err
			},
			"once": func() error {
				_, _, err := f.writer(cfg).AppendOnce(f.ctx, "k", time.Hour, codec.Message{})
				return err
			},
			"exclusive": func() error {
				cfg := cfg
				cfg.Exclusive, cfg.Mint = true, mint
				_, err := e.writer(cfg).AppendBatch(f.ctx, messages(2))
				return err
			},
		}
		var wg sync.WaitGroup
		for name, call := range appends {
			wg.Go(func() {
				err := call()
				if !errorsIsAny(err, tier.ErrNotReplicated) || !tier.OutcomeUnknown(err) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		require.Len(t, f.all(), 1+2+2+1)
		require.Len(t, e.all(), 2)
		_, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.address, Replicas: -1})
		require.ErrorIs(t, err, stream.ErrBadCall)
	})
}

// TestReplicasFrozen: nothing is acknowledged while the replica does not answer, by a repetition on a new connection
// neither; when it does, all is, once.
func TestReplicasFrozen(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := tiertest.NewReplicated(t, kind)
			f, proxy := setUpProxied(t, r.Primary)
			f.client = patient(t, proxy, time.Second)
			mint := f.mint()
			f.append(f.writer(stream.WriterConfig{}), 1)
			r.WaitSynced(t)
			require.NoError(t, r.Replica.Freeze())
			e := f.at("events")
			plain := f.writer(stream.WriterConfig{Replicas: 1, RetryFor: time.Minute})
			packs := f.writer(stream.WriterConfig{Replicas: 1, RetryFor: time.Minute, Pack: 2})
			exclusive := e.writer(stream.WriterConfig{Replicas: 1, RetryFor: time.Minute, Exclusive: true, Mint: mint})
			var ended atomic.Int64
			var wg sync.WaitGroup
			ids := make([][]codec.ID, 3)
			start := func(i int, call func() ([]codec.ID, error)) {
				wg.Go(func() {
					got, err := call()
					ended.Add(1)
					if err != nil {
						t.Error(err)
					}
					ids[i] = got
				})
			}
			start(0, func() ([]codec.ID, error) { return plain.AppendBatch(f.ctx, messages(2)) })
			start(1, func() ([]codec.ID, error) { return packs.AppendBatch(f.ctx, messages(2)) })
			start(2, func() ([]codec.ID, error) { return exclusive.AppendBatch(f.ctx, messages(2)) })
			wg.Go(func() {
				_, fresh, err := plain.AppendOnce(f.ctx, "k", time.Hour, codec.Message{})
				ended.Add(1)
				if err != nil || !fresh {
					t.Error(fresh, err)
				}
			})
			waits := func() int { return proxy.Commands()["WAIT"] }
			tiertest.Eventually(t, time.Minute, func() (bool, string) { return waits() >= 8, fmt.Sprint(waits()) })
			proxy.Cut() // new connections have written nothing yet
			before := waits()
			tiertest.Eventually(t, time.Minute, func() (bool, string) { return waits() >= before+12, fmt.Sprint(waits()) })
			require.Zero(t, ended.Load())
			require.NoError(t, r.Replica.Thaw())
			wg.Wait()
			require.Len(t, f.all(), 1+2+2+1)
			require.Equal(t, ids[2], idsOf(e.all()))
			fromReplica := r.Replica.Command(t, "XLEN", f.log())
			n, err := fromReplica.AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, 1+2+1+1, n)
		})
	}
}

// loaded are writers that append one message after another, each with a key of its own, until they are stopped.
type loaded struct {
	f     *fixture
	mu    sync.Mutex
	acked map[string]codec.ID
	stop  chan struct{}
	wg    sync.WaitGroup
}

func load(f *fixture, writers ...*stream.Writer) *loaded {
	l := &loaded{f: f, acked: map[string]codec.ID{}, stop: make(chan struct{})}
	for i, w := range writers {
		for g := range 4 {
			l.wg.Go(func() {
				for n := 0; !isClosed(l.stop); n++ {
					l.append(w, fmt.Sprint(i, " ", g, " ", n))
				}
			})
		}
	}
	return l
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *loaded) append(w *stream.Writer, key string) {
	id, err := w.Append(l.f.ctx, codec.Message{Key: key})
	if err != nil {
		if !tier.OutcomeUnknown(err) {
			l.f.t.Error(err)
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[key] = id
}

func (l *loaded) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// grow waits until more were acknowledged.
func (l *loaded) grow(n int) {
	l.f.t.Helper()
	want := l.count() + n
	tiertest.Eventually(l.f.t, time.Minute, func() (bool, string) {
		got := l.count()
		return got >= want, fmt.Sprint(got, " of ", want)
	})
}

// requireKept: what was acknowledged is in the log, with its id, and nothing twice.
func (l *loaded) requireKept() {
	l.f.t.Helper()
	close(l.stop)
	l.wg.Wait()
	all := l.f.all()
	requireAscending(l.f.t, all)
	at := map[string]codec.ID{}
	for _, r := range all {
		require.NotContains(l.f.t, at, r.Key)
		at[r.Key] = r.ID
	}
	for key, id := range l.acked {
		if at[key] != id {
			l.f.t.Fatalf("%s was acknowledged as %s and is %s", key, id, at[key])
		}
	}
}

// TestReplicasFailover (B37): a primary that is killed under load takes nothing with it that was acknowledged, and
// writers go on with the replica that is promoted.
func TestReplicasFailover(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := tiertest.NewReplicated(t, kind)
			proxy := tiertest.NewProxy(t, r.Primary)
			client := patient(t, proxy, 2*time.Second)
			f := &fixture{t: t, ctx: testContext(t), server: r.Replica, client: client, address: tiertest.Scope(t) + "/orders"}
			cfg := stream.WriterConfig{Address: f.address, Replicas: 1, RetryFor: time.Minute}
			packs := cfg
			packs.Pack = 3
			l := load(f, f.writer(cfg), f.writer(packs))
			l.grow(300)
			r.Primary.Kill()
			r.Replica.Command(t, "REPLICAOF", "NO", "ONE")
			proxy.Switch(r.Replica)
			old := r.Primary
			require.NoError(t, old.Restart(f.ctx))
			host, port, err := net.SplitHostPort(r.Replica.Addr())
			require.NoError(t, err)
			old.Command(t, "REPLICAOF", host, port)
			l.grow(300)
			l.requireKept()
			require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
		})
	}
}

// TestReplicasCluster: in a cluster the wait is for the replicas of the node that has the stream, and what was
// acknowledged survives failovers (B37).
func TestReplicasCluster(t *testing.T) {
	t.Parallel()
	c := tiertest.NewCluster(t, tiertest.Valkey)
	client := patient(t, c, 2*time.Second)
	f := &fixture{t: t, ctx: testContext(t), server: c.Nodes[0], client: client, address: tiertest.Scope(t) + "/orders"}
	l := load(f, f.writer(stream.WriterConfig{Replicas: 1, RetryFor: time.Minute}), f.writer(stream.WriterConfig{Replicas: 1, RetryFor: time.Minute, Pack: 3}))
	for range 2 {
		l.grow(200)
		c.Failover(t, f.log())
	}
	l.grow(200)
	l.requireKept()
	w := f.writer(stream.WriterConfig{Replicas: 2, RetryFor: time.Second})
	_, err := w.Append(f.ctx, codec.Message{})
	require.ErrorIs(t, err, tier.ErrNotReplicated, "the node has one replica")
}

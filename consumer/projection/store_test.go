package projection_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// memory is a store whose transactions are those of a lock.
type memory struct {
	sync.Mutex
	epoch  uint64
	at     codec.EntryID
	state  map[string]tally
	flaky  bool
	fenced int
}

func (m *memory) Begin(_ context.Context, epoch uint64) (codec.EntryID, error) {
	m.Lock()
	defer m.Unlock()
	if epoch < m.epoch {
		m.fenced++
		return codec.EntryID{}, tier.ErrFenced
	}
	m.epoch = epoch
	return m.at, nil
}

func (m *memory) Apply(_ context.Context, epoch uint64, batch []*consumer.Delivery, checkpoint codec.EntryID) error {
	m.Lock()
	defer m.Unlock()
	if epoch != m.epoch {
		m.fenced++
		return tier.ErrFenced
	}
	if m.flaky && rand.IntN(5) == 0 {
		return errors.New("the store is away")
	}
	for _, d := range batch {
		next, err := add(m.state[d.Key], d)
		if err == nil {
			m.state[d.Key] = next
		}
	}
	m.at = checkpoint
	return nil
}

func (m *memory) copied() (uint64, map[string]tally, int) {
	m.Lock()
	defer m.Unlock()
	all := map[string]tally{}
	for k, v := range m.state {
		all[k] = v
	}
	return m.epoch, all, m.fenced
}

func (s *stage) stored(store projection.Store) *projection.Projection {
	p, err := projection.NewStored(s.client, projection.Config{Address: s.addr.String(), Name: "tallies", Lease: lease, Batch: 40}, store)
	require.NoError(s.t, err)
	return p
}

// TestStored: a store that fails, and owners that come and go between its transaction and the commit at the server, apply each
// message once, in order.
func TestStored(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 1000, 10, 7)
		s.append(1000, 500, 10, 1)
		store := &memory{state: map[string]tally{}, flaky: true}
		stop := make(chan struct{})
		var members sync.WaitGroup
		for range 2 {
			members.Go(func() {
				for running := true; running; {
					r := start(t, s.stored(store))
					select {
					case <-stop:
						running = false
					case <-time.After(time.Duration(rand.IntN(300)) * time.Millisecond):
					}
					if err := r.stop(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		want := s.want()
		tiertest.Eventually(t, patience, func() (bool, string) { return s.info(1).Epoch > 0 && s.info(1).Lag == 0, "lag" })
		close(stop)
		members.Wait()
		_, have, _ := store.copied()
		require.Equal(t, want, have)

		// The server forgets how far it was: the store knows.
		require.NoError(t, projection.Reset(t.Context(), s.client, s.addr.String(), "tallies", 1))
		r := start(t, s.stored(store))
		tiertest.Eventually(t, patience, func() (bool, string) { return s.info(1).Lag == 0, "lag" })
		require.NoError(t, r.stop())
		_, have, _ = store.copied()
		require.Equal(t, want, have)
	})
}

// TestStoredFreeze: an owner that was held up right before its transaction, until another had taken over, changes nothing.
func TestStoredFreeze(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(0, 10, 3, 1)
	proxy := tiertest.NewProxy(t, s.server)
	frozen := *s
	frozen.client = tiertest.Dial(t, proxy)
	store := &memory{state: map[string]tally{}}
	inside, release := make(chan struct{}), make(chan struct{})
	old := &held{memory: store, inside: inside, release: release}
	first := start(t, frozen.stored(old))
	<-inside
	proxy.Freeze()
	began, _, _ := store.copied()
	second := start(t, s.stored(store))
	tiertest.Eventually(t, patience, func() (bool, string) {
		epoch, state, _ := store.copied()
		return epoch > began && len(state) == 3, "not taken over"
	})
	close(release)
	tiertest.Eventually(t, patience, func() (bool, string) { _, _, fenced := store.copied(); return fenced > 0, "not fenced" })
	proxy.Thaw()
	require.NoError(t, first.stop())
	require.NoError(t, second.stop())
	_, have, _ := store.copied()
	require.Equal(t, s.want(), have)
}

// held stops once before a transaction.
type held struct {
	*memory
	once            sync.Once
	inside, release chan struct{}
}

func (h *held) Apply(ctx context.Context, epoch uint64, batch []*consumer.Delivery, checkpoint codec.EntryID) error {
	h.once.Do(func() {
		close(h.inside)
		<-h.release
	})
	return h.memory.Apply(ctx, epoch, batch, checkpoint)
}

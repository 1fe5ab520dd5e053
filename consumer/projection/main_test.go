package projection_test

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const (
	patience = time.Minute
	lease    = time.Second
)

func TestMain(m *testing.M) {
	if address := os.Getenv(memoryChildEnv); address != "" {
		os.Exit(memoryChild(address))
	}
	if address := os.Getenv(childEnv); address != "" {
		os.Exit(child(address))
	}
	tiertest.Main(m)
}

// tally is a state of which each message counts, and their order.
type tally struct {
	Count, Sum int
	Last       string // address of the last message: another order would show
	Chain      uint64 // of all of them
}

func add(t tally, d *consumer.Delivery) (tally, error) {
	n, err := strconv.Atoi(string(d.Data))
	if err != nil {
		return t, consumer.Permanent(err)
	}
	return tally{t.Count + 1, t.Sum + n, d.Addr.String(), t.Chain*31 + uint64(n)}, nil
}

// stage is a stream of a test's own.
type stage struct {
	t      testing.TB
	server *tiertest.Server
	client *tier.Client
	addr   tier.Address
}

func newStage(t testing.TB, server *tiertest.Server) *stage {
	return &stage{t, server, tiertest.Dial(t, server), tier.Address{Scope: tiertest.AuditedScope(t, server), Stream: "orders"}}
}

// keyOf is the key of a message of so many keys.
func keyOf(at, keys int) string { return "k" + strconv.Itoa(at*7919%keys) }

// append appends n messages of so many keys, their numbers being the data.
func (s *stage) append(from, n, keys, pack int) {
	s.t.Helper()
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD", Pack: pack})
	require.NoError(s.t, err)
	for at := from; at < from+n; {
		var ms []codec.Message
		for ; at < from+n && len(ms) < 4000; at++ {
			ms = append(ms, codec.Message{Key: keyOf(at, keys), Data: []byte(strconv.Itoa(at))})
		}
		_, err := w.AppendBatch(s.t.Context(), ms)
		require.NoError(s.t, err)
	}
}

// want is what the log folds to.
func (s *stage) want() map[string]tally {
	r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(s.t, err)
	all := map[string]tally{}
	for m, err := range r.Range(context.Background(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		if next, err := add(all[m.Key], &consumer.Delivery{Record: m}); err == nil {
			all[m.Key] = next
		}
	}
	return all
}

func (s *stage) config(version int) projection.TableConfig[tally] {
	return projection.TableConfig[tally]{
		Config: projection.Config{Address: s.addr.String(), Name: "tallies", Version: version, Lease: lease, Attempts: 1000, Backoff: time.Microsecond},
		Fold:   add, Codec: codec.JSON[tally](),
	}
}

func (s *stage) table(cfg projection.TableConfig[tally]) *projection.Table[tally] {
	s.t.Helper()
	p, err := projection.NewTable(s.client, cfg)
	require.NoError(s.t, err)
	return p
}

// running is a projection that runs until it is stopped.
type running struct {
	cancel context.CancelFunc
	done   chan error
}

type runner interface {
	Run(ctx context.Context) error
}

func start(t testing.TB, p runner) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel, make(chan error, 1)}
	go func() { r.done <- p.Run(ctx) }()
	t.Cleanup(func() { cancel() })
	return r
}

func (r *running) stop() error {
	r.cancel()
	return r.wait()
}

func (r *running) wait() error {
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		return context.DeadlineExceeded
	}
}

func (s *stage) raw(command, key string, args ...string) map[string]string {
	m, err := s.client.Do(context.Background(), key, s.client.B().Arbitrary(command).Keys(key).Args(args...).Build())
	require.NoError(s.t, err)
	all, err := m.AsStrMap()
	if err != nil {
		return nil
	}
	return all
}

// state is what stands at the server, of a version, as another program reads it.
func (s *stage) state(version int) map[string]tally {
	all := map[string]tally{}
	for key, text := range s.raw("HGETALL", tier.StateKey(s.addr.Scope, projection.Versioned("tallies", version))) {
		if key == "" {
			continue
		}
		var one tally
		require.NoError(s.t, json.Unmarshal([]byte(text), &one))
		all[key] = one
	}
	return all
}

// settled waits until a version has folded all, and requires its state.
func (s *stage) settled(version int) {
	s.t.Helper()
	tiertest.Eventually(s.t, patience, func() (bool, string) {
		i := s.info(version)
		return i.Lag == 0 && i.Epoch > 0, strconv.Itoa(int(i.Lag))
	})
	require.Equal(s.t, s.want(), s.state(version))
}

func (s *stage) info(version int) projection.Info {
	list, err := projection.List(context.Background(), s.client, s.addr.String())
	require.NoError(s.t, err)
	for _, i := range list {
		if i.Projection == "tallies" && i.Version == version {
			return i
		}
	}
	return projection.Info{}
}

package aggregate_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/stream/aggregate"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

// tally is a state: what was added up, of how many messages, and the last one's address.
type tally struct {
	Sum, Count int
	Last       string
}

var errNotANumber = errors.New("not a number")

func fold(t tally, r codec.Record) (tally, error) {
	n, err := strconv.Atoi(string(r.Data))
	if err != nil {
		return t, errNotANumber
	}
	return tally{t.Sum + n, t.Count + 1, r.Addr.String()}, nil
}

func plus(n int) codec.Message {
	return codec.Message{Type: "added", Data: []byte(strconv.Itoa(n))}
}

type fixture struct {
	t      testing.TB
	ctx    context.Context
	client *tier.Client
	addr   tier.Address
}

func setUp(t testing.TB, s *tiertest.Server) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return &fixture{t, ctx, tiertest.Dial(t, s), tier.Address{Scope: tiertest.AuditedScope(t, s), Stream: "tallies"}}
}

func (f *fixture) repository(cfg aggregate.Config[tally]) *aggregate.Repository[tally] {
	f.t.Helper()
	cfg.Address = f.addr.String()
	if cfg.Fold == nil {
		cfg.Fold = fold
	}
	r, err := aggregate.New(f.client, cfg)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) add(r *aggregate.Repository[tally], key string, numbers ...int) {
	f.t.Helper()
	for _, n := range numbers {
		_, err := r.Execute(f.ctx, key, func(tally) ([]codec.Message, error) { return []codec.Message{plus(n)}, nil })
		require.NoError(f.t, err)
	}
}

func (f *fixture) do(args ...string) string {
	f.t.Helper()
	m, err := f.client.Do(f.ctx, args[1], f.client.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build())
	require.NoError(f.t, err)
	text, err := m.ToString()
	if err != nil {
		n, err := m.AsInt64()
		require.NoError(f.t, err)
		return strconv.FormatInt(n, 10)
	}
	return text
}

// TestExecute: what was decided on a state stands in the log, and the state follows from it; errors of decide, and no messages,
// append nothing.
func TestExecute(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		r := f.repository(aggregate.Config[tally]{})
		state, err := r.Load(f.ctx, "a")
		require.NoError(t, err)
		require.Equal(t, aggregate.State[tally]{}, state)
		f.add(r, "a", 1, 2)
		ids, err := r.Execute(f.ctx, "a", func(state tally) ([]codec.Message, error) {
			require.Equal(t, 3, state.Sum)
			return []codec.Message{plus(state.Sum), plus(10)}, nil
		})
		require.NoError(t, err)
		state, err = r.Load(f.ctx, "a")
		require.NoError(t, err)
		require.Equal(t, tally{16, 4, ids[1].ServerEntry().String()}, state.Value)
		require.EqualValues(t, 4, state.Version)

		refused := errors.New("refused")
		_, err = r.Execute(f.ctx, "a", func(tally) ([]codec.Message, error) { return []codec.Message{plus(1)}, refused })
		require.Equal(t, refused, err)
		ids, err = r.Execute(f.ctx, "a", func(tally) ([]codec.Message, error) { return nil, nil })
		require.NoError(t, err)
		require.Empty(t, ids)
		_, err = r.ExecuteAll(f.ctx, []string{"a", "b"}, func(...tally) ([]codec.Message, error) { return []codec.Message{{Key: "c"}}, nil })
		require.ErrorIs(t, err, stream.ErrBadCall)
		require.Equal(t, "4", f.do("XLEN", f.addr.LogKey()))
	})
}

// TestExecuteAtOnce: 50 decisions on one aggregate, by clients of their own, are taken one after another; those on two
// aggregates whole.
func TestExecuteAtOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		var wg sync.WaitGroup
		for i := range 50 {
			g := *f
			g.client = tiertest.Dial(t, s)
			r := g.repository(aggregate.Config[tally]{Attempts: 1000, SnapshotEvery: 7})
			wg.Go(func() {
				_, err := r.ExecuteAll(f.ctx, []string{"a", "b"}, func(states ...tally) ([]codec.Message, error) {
					a, b := plus(states[0].Count+1), plus(-states[1].Count-1)
					a.Key, b.Key = "a", "b"
					return []codec.Message{a, b}, nil
				})
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		for key, sum := range map[string]int{"a": 50 * 51 / 2, "b": -50 * 51 / 2} {
			for _, every := range []int{7, -1} {
				state, err := f.repository(aggregate.Config[tally]{SnapshotEvery: every}).Load(f.ctx, key)
				require.NoError(t, err)
				require.Equal(t, sum, state.Value.Sum)
				require.EqualValues(t, 50, state.Version)
			}
		}
	})
}

// TestGivesUp: a decision that loses each time ends with an error that says to whom, after as many attempts as it may take.
func TestGivesUp(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	r, other := f.repository(aggregate.Config[tally]{Attempts: 3}), f.repository(aggregate.Config[tally]{})
	var seen []int
	_, err := r.Execute(f.ctx, "a", func(state tally) ([]codec.Message, error) {
		seen = append(seen, state.Count)
		f.add(other, "a", 1)
		return []codec.Message{plus(100)}, nil
	})
	var gaveUp *aggregate.GaveUpError
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, 3, gaveUp.Attempts)
	require.Equal(t, &stream.ConflictError{Stream: f.addr.String(), Key: "a", Want: "2", Got: "3"}, gaveUp.Err)
	require.Equal(t, []int{0, 1, 2}, seen)
	require.False(t, tier.OutcomeUnknown(err))
	state, err := r.Load(f.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, 3, state.Value.Sum)
}

// TestSnapshots: a snapshot spares the messages before it, and one that is of no use, for whatever reason, changes nothing.
func TestSnapshots(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		cfg := aggregate.Config[tally]{Schema: 2, SnapshotEvery: 5}
		r := f.repository(cfg)
		snap := f.addr.SnapshotKey("a")
		f.add(r, "a", 1, 2, 3, 4)
		require.Equal(t, "0", f.do("EXISTS", snap))
		f.add(r, "a", 5)
		want, err := f.repository(aggregate.Config[tally]{SnapshotEvery: -1}).Load(f.ctx, "a")
		require.NoError(t, err)
		state, err := r.Load(f.ctx, "a")
		require.NoError(t, err)
		require.Equal(t, want, state)
		good := f.do("GET", snap)

		// Another state under each of these would show.
		lie := f.repository(aggregate.Config[tally]{Schema: 2, SnapshotEvery: 1, Fold: func(t tally, _ codec.Record) (tally, error) { return tally{Sum: -1}, nil }})
		f.do("DEL", snap)
		_, err = lie.Load(f.ctx, "a")
		require.NoError(t, err)
		lied := f.do("GET", snap)
		state, err = r.Load(f.ctx, "a")
		require.NoError(t, err)
		require.Equal(t, -1, state.Value.Sum, "it is used: else this test shows nothing")
		for name, spoil := range map[string]func() aggregate.Config[tally]{
			"another schema":     func() aggregate.Config[tally] { return aggregate.Config[tally]{Schema: 3, SnapshotEvery: 5} },
			"missing":            func() aggregate.Config[tally] { f.do("DEL", snap); return cfg },
			"garbage":            func() aggregate.Config[tally] { f.do("SET", snap, "\xff\x00"); return cfg },
			"cut off":            func() aggregate.Config[tally] { f.do("SET", snap, lied[:len(lied)-3]); return cfg },
			"of another type":    func() aggregate.Config[tally] { f.do("DEL", snap); f.do("SADD", snap, "x"); return cfg },
			"newer than what is": func() aggregate.Config[tally] { f.do("SET", snap, lied[:2]+"\x09"+lied[3:]); return cfg },
			"of another log":     func() aggregate.Config[tally] { f.do("SET", snap, lied[:5]+"0"+lied[6:]); return cfg },
		} {
			f.do("SET", snap, lied)
			state, err = f.repository(spoil()).Load(f.ctx, "a")
			require.NoError(t, err, name)
			require.Equal(t, want, state, name)
			f.do("DEL", snap)
		}

		f.do("SET", snap, good)
		f.add(r, "a", 6)
		f.do("XTRIM", f.addr.LogKey(), "MAXLEN", "1")
		state, err = r.Load(f.ctx, "a")
		require.NoError(t, err, "the messages before it are gone")
		require.Equal(t, 21, state.Value.Sum)
		require.EqualValues(t, 6, state.Version)
		f.do("DEL", snap)
		_, err = r.Load(f.ctx, "a")
		require.ErrorIs(t, err, stream.ErrTrimmed, "never a state of what is left")
	})
}

// TestSnapshotOfAnotherLog: a stream that was removed and made anew has the same versions, and a snapshot that a late process
// wrote of the old one is not used.
func TestSnapshotOfAnotherLog(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	cfg := aggregate.Config[tally]{SnapshotEvery: 1}
	f.add(f.repository(cfg), "a", 100)
	_, err := f.repository(cfg).Load(f.ctx, "a")
	require.NoError(t, err)
	old := f.do("GET", f.addr.SnapshotKey("a"))
	_, err = stream.Remove(f.ctx, f.client, f.addr.String())
	require.NoError(t, err)
	f.add(f.repository(cfg), "a", 1)
	f.do("SET", f.addr.SnapshotKey("a"), old)
	state, err := f.repository(cfg).Load(f.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, 1, state.Value.Sum)
}

// TestOldMessages: they are folded as new ones; what no rule can make new, and what the fold refuses, is an error that names
// the key and the version, and nothing is decided on the rest.
func TestOldMessages(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	r := f.repository(aggregate.Config[tally]{Upcasts: codec.Upcasts{
		"added.hex": func(m *codec.Message) error {
			n, err := strconv.ParseInt(string(m.Data), 16, 64)
			m.Type, m.Data = "added", []byte(strconv.FormatInt(n, 10))
			return err
		},
	}})
	appended := func(m codec.Message) error {
		_, err := r.Execute(f.ctx, "a", func(tally) ([]codec.Message, error) { return []codec.Message{m}, nil })
		return err
	}
	require.NoError(t, appended(codec.Message{Type: "added.hex", Data: []byte("ff")}))
	state, err := r.Load(f.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, 255, state.Value.Sum)
	for _, m := range []codec.Message{{Type: "added.hex", Data: []byte("xyz")}, {Type: "added", Data: []byte("xyz")}} {
		require.NoError(t, appended(m))
		_, err = r.Load(f.ctx, "a")
		require.ErrorContains(t, err, "load a of "+f.addr.String()+", at version 2")
		require.Equal(t, m.Type == "added", errors.Is(err, errNotANumber))
		require.Error(t, appended(plus(1)))
		_, err := stream.Remove(f.ctx, f.client, f.addr.String())
		require.NoError(t, err)
		r = f.repository(aggregate.Config[tally]{})
		f.add(r, "a", 1)
	}
}

// TestBadConfig: what is missing is said.
func TestBadConfig(t *testing.T) {
	for _, cfg := range []aggregate.Config[tally]{{Address: "a/b"}, {Fold: fold, Address: "a"}, {Fold: fold, Address: "a/b", Attempts: -1}} {
		_, err := aggregate.New(nil, cfg)
		require.Error(t, err)
	}
}

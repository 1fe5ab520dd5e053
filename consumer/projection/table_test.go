package projection_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
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

// TestExactlyOnceInOrder: whatever folds do (errors, panics, errors after a state was changed) and whoever owns, the state of
// each key is the fold of its messages, once each, in order.
func TestExactlyOnceInOrder(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, pack := range []int{1, 20} {
			t.Run(strconv.Itoa(pack), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				s.append(0, 1500, 40, pack)
				cfg := s.config(1)
				cfg.Batch = 64
				cfg.Cached = 20 // below what there is
				cfg.Fold = func(t tally, d *consumer.Delivery) (tally, error) {
					next, err := add(t, d)
					switch rand.IntN(60) {
					case 0:
						return next, errors.New("not today")
					case 1:
						panic("not today")
					}
					return next, err
				}
				stop := make(chan struct{})
				var members sync.WaitGroup
				for range 3 {
					members.Go(func() {
						for running := true; running; {
							r := start(t, s.table(cfg))
							select {
							case <-stop:
								running = false
							case <-time.After(time.Duration(rand.IntN(400)) * time.Millisecond):
							}
							if err := r.stop(); err != nil {
								t.Error(err)
							}
						}
					})
				}
				s.append(1500, 500, 40, pack)
				s.settled(1)
				close(stop)
				members.Wait()
			})
		}
	})
}

// TestEmitsOnce: what folds emit happens once, in the order of the log, also when the message is folded several times.
func TestEmitsOnce(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 300, 5, 1)
		cfg := s.config(1)
		failed := map[string]bool{}
		cfg.Fold = func(t tally, d *consumer.Delivery) (tally, error) {
			d.Emit(tier.AppendTo(s.addr.Scope+"/out", codec.Message{Key: string(d.Data)}), tier.HashIncrement("total", "n", 1))
			if at := d.Addr.String(); !failed[at] && rand.IntN(10) == 0 {
				failed[at] = true
				return t, errors.New("not today")
			}
			return add(t, d)
		}
		r := start(t, s.table(cfg))
		s.settled(1)
		require.NoError(t, r.stop())
		require.Equal(t, map[string]string{"n": "300"}, s.raw("HGETALL", tier.StateKey(s.addr.Scope, "total")))
		out, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.Scope + "/out"})
		require.NoError(t, err)
		n := 0
		for m, err := range out.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(n), m.Key)
			n++
		}
		require.Equal(t, 300, n)
	})
}

// TestGivesUp: what cannot be folded, read or written goes to the dead letters, with the reason, once, and costs nothing but
// itself; redriven it is folded late, once.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, pack := range []int{1, 7} {
			t.Run(strconv.Itoa(pack), func(t *testing.T) {
				s := newStage(t, server)
				s.append(0, 20, 3, pack)
				w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD", Pack: pack})
				require.NoError(t, err)
				_, err = w.AppendBatch(t.Context(), []codec.Message{
					{Key: "k0", Data: []byte("poison")}, {Key: "k1", Data: []byte("7")}, {Key: "bad", Data: []byte("8")}, {Data: []byte("9")},
				})
				require.NoError(t, err)
				s.raw("XADD", s.addr.LogKey(), "*", "m", "\xff")
				s.append(20, 20, 3, pack)
				cfg := s.config(1)
				mended := false
				cfg.Fold = func(t tally, d *consumer.Delivery) (tally, error) {
					if d.Key == "bad" {
						d.Emit(tier.HashIncrement("total", "n", 1), tier.AppendTo("elsewhere/out", codec.Message{}))
					}
					if mended && string(d.Data) == "poison" {
						t.Count += 1000
						return t, nil
					}
					return add(t, d)
				}
				r := start(t, s.table(cfg))
				tiertest.Eventually(t, patience, func() (bool, string) { i := s.info(1); return i.Epoch > 0 && i.Lag == 0, "lag" })
				require.NoError(t, r.stop())
				var reasons []string
				for l, err := range stream.DeadLetters(t.Context(), s.client, s.addr.String(), projection.Versioned("tallies", 1)) {
					require.NoError(t, err)
					reasons = append(reasons, fmt.Sprint(l.Record.Key, " ", l.Reason))
				}
				require.Len(t, reasons, 3, reasons)
				require.Contains(t, reasons[0], `k0 strconv.Atoi: parsing "poison"`)
				require.Contains(t, reasons[1], "run a forwarder")
				require.Empty(t, s.raw("HGETALL", tier.StateKey(s.addr.Scope, "total")), "nothing of it was written")
				have := s.state(1)
				require.NotContains(t, have, "bad")
				require.Equal(t, 41, have["k0"].Count+have["k1"].Count+have["k2"].Count)

				mended = true
				var first codec.EntryID
				for l, err := range stream.DeadLetters(t.Context(), s.client, s.addr.String(), projection.Versioned("tallies", 1)) {
					require.NoError(t, err)
					first = l.ID
					break
				}
				_, err = stream.Redrive(t.Context(), s.client, s.addr.String(), projection.Versioned("tallies", 1), []codec.EntryID{first})
				require.NoError(t, err)
				r = start(t, s.table(cfg))
				tiertest.Eventually(t, patience, func() (bool, string) {
					return s.state(1)["k0"].Count == have["k0"].Count+1000, fmt.Sprint(s.state(1)["k0"])
				})
				require.NoError(t, r.stop())
			})
		}
	})
}

// TestStateLost: a state that somebody deleted is noticed, at once and after a restart, and not made up from half of the
// messages; Reset makes it again. So does a schema that is another one.
func TestStateLost(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 100, 5, 1)
		r := start(t, s.table(s.config(1)))
		s.settled(1)
		s.raw("DEL", tier.StateKey(s.addr.Scope, "tallies.1"))
		s.append(100, 1, 5, 1)
		var lost *projection.StateLostError
		require.ErrorAs(t, r.wait(), &lost)
		require.Equal(t, "tallies.1", lost.State)
		require.ErrorAs(t, start(t, s.table(s.config(1))).wait(), &lost)
		require.Empty(t, s.state(1))
		require.NoError(t, projection.Reset(t.Context(), s.client, s.addr.String(), "tallies", 1))
		r = start(t, s.table(s.config(1)))
		s.settled(1)

		require.NoError(t, projection.Reset(t.Context(), s.client, s.addr.String(), "tallies", 1)) // while it runs
		s.append(101, 100, 5, 1)
		s.settled(1)
		require.NoError(t, r.stop())

		cfg := s.config(1)
		cfg.Schema = 2
		var schema *projection.SchemaError
		require.ErrorAs(t, start(t, s.table(cfg)).wait(), &schema)
		s.raw("SET", tier.StateKey(s.addr.Scope, "tallies.1"), "x")
		require.ErrorIs(t, start(t, s.table(s.config(1))).wait(), tier.ErrWrongType)
	})
}

// TestRemoveAndRank: a key leaves the table and its order when its fold says so, and may come back.
func TestRemoveAndRank(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		cfg := s.config(1)
		cfg.Rank = func(t tally) float64 { return float64(t.Sum) }
		cfg.Fold = func(t tally, d *consumer.Delivery) (tally, error) {
			if string(d.Data) == "0" {
				return t, projection.ErrRemove
			}
			return add(t, d)
		}
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
		require.NoError(t, err)
		for _, m := range [][2]string{{"a", "5"}, {"b", "3"}, {"c", "9"}, {"c", "0"}, {"a", "0"}, {"a", "1"}, {"d", "4"}} {
			_, err = w.Append(t.Context(), codec.Message{Key: m[0], Data: []byte(m[1])})
			require.NoError(t, err)
		}
		r := start(t, s.table(cfg))
		tiertest.Eventually(t, patience, func() (bool, string) { i := s.info(1); return i.Epoch > 0 && i.Lag == 0, "lag" })
		_, err = w.Append(t.Context(), codec.Message{Key: "d", Data: []byte("0")}) // of a state that is kept in memory
		require.NoError(t, err)
		tiertest.Eventually(t, patience, func() (bool, string) { return s.info(1).Lag == 0, "lag" })
		require.NoError(t, r.stop())
		have := s.state(1)
		require.Len(t, have, 2)
		require.Equal(t, 1, have["a"].Sum)
		require.Equal(t, 1, have["a"].Count)
		key := tier.StateKey(s.addr.Scope, projection.RankOf("tallies.1"))
		m, err := s.client.Do(t.Context(), key, s.client.B().Zrange().Key(key).Min("0").Max("-1").Build())
		require.NoError(t, err)
		order, err := m.AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, order)
	})
}

// TestVersions: a second version is made from the head beside the first, which goes on; what is history says so; readers use
// the one that is live, and the other is dropped.
func TestVersions(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		ctx, address := t.Context(), s.addr.String()
		view, err := projection.NewView(s.client, s.addr.Scope, "tallies", codec.JSON[tally]())
		require.NoError(t, err)
		_, _, err = view.Get(ctx, "k0")
		require.ErrorIs(t, err, projection.ErrNoProjection)
		s.append(0, 200, 5, 1)
		first := start(t, s.table(s.config(1)))
		s.settled(1)

		cfg := s.config(2)
		var mu sync.Mutex
		history, news := 0, 0
		cfg.Fold = func(t tally, d *consumer.Delivery) (tally, error) {
			mu.Lock()
			defer mu.Unlock()
			if d.Replay {
				history++
			} else {
				news++
			}
			return add(t, d)
		}
		second := start(t, s.table(cfg))
		s.settled(2)
		s.append(200, 100, 5, 1)
		s.settled(1)
		s.settled(2)
		require.Equal(t, s.state(1), s.state(2))
		mu.Lock()
		require.Equal(t, []int{200, 100}, []int{history, news})
		mu.Unlock()

		require.True(t, s.info(1).Live)
		require.False(t, s.info(2).Live)
		require.ErrorIs(t, projection.Switch(ctx, s.client, address, "tallies", 3), projection.ErrNoProjection)
		require.ErrorAs(t, projection.Drop(ctx, s.client, address, "tallies", 1), new(*projection.LiveError))
		require.NoError(t, projection.Switch(ctx, s.client, address, "tallies", 2))
		live, err := projection.Live(ctx, s.client, s.addr.Scope, "tallies")
		require.NoError(t, err)
		require.Equal(t, tier.LiveVersion{Stream: "orders", Version: 2}, live)
		require.NoError(t, projection.Drop(ctx, s.client, address, "tallies", 1))
		require.ErrorIs(t, first.wait(), stream.ErrCursorDeleted)
		require.Empty(t, s.state(1))
		require.ErrorIs(t, projection.Drop(ctx, s.client, address, "tallies", 1), projection.ErrNoProjection)
		got, ok, err := view.Get(ctx, "k0")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, s.want()["k0"], got)
		_, ok, err = view.Get(ctx, "nobody")
		require.NoError(t, err)
		require.False(t, ok)

		other := s.config(1)
		other.Address = s.addr.Scope + "/others"
		var taken *projection.NameTakenError
		require.ErrorAs(t, start(t, s.table(other)).wait(), &taken)
		require.Equal(t, address, taken.Stream)

		require.NoError(t, projection.Drop(ctx, s.client, address, "tallies", 2), "the last one may go")
		require.ErrorIs(t, second.wait(), stream.ErrCursorDeleted)
		_, err = projection.Live(ctx, s.client, s.addr.Scope, "tallies")
		require.ErrorIs(t, err, projection.ErrNoProjection)
	})
}

// TestBadConfig: what is missing or too much is refused with the rule.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*projection.TableConfig[tally]){
		"Fold": func(c *projection.TableConfig[tally]) { c.Fold = nil }, "Name": func(c *projection.TableConfig[tally]) { c.Name = "a b" },
		"Version": func(c *projection.TableConfig[tally]) { c.Version = -1 }, "Batch": func(c *projection.TableConfig[tally]) { c.Batch = 4097 },
		"Attempts": func(c *projection.TableConfig[tally]) { c.Attempts = -1 }, "Backoff": func(c *projection.TableConfig[tally]) { c.Backoff = -1 },
		"Cached": func(c *projection.TableConfig[tally]) { c.Cached = -1 },
	} {
		cfg := projection.TableConfig[tally]{Config: projection.Config{Address: "shop/orders", Name: "tallies"}, Fold: add}
		_, err := projection.NewTable(nil, cfg)
		require.NoError(t, err)
		change(&cfg)
		_, err = projection.NewTable(nil, cfg)
		require.ErrorIs(t, err, consumer.ErrConfig, name)
		require.ErrorContains(t, err, name)
	}
	_, err := projection.NewStored(nil, projection.Config{Address: "shop/orders", Name: "tallies"}, nil)
	require.ErrorIs(t, err, consumer.ErrConfig)
}

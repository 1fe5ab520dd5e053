package replay_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

var identity = codec.Identity{Brand: "ORD", Node: 7}

// history is a source in memory.
type history []codec.Record

func (h history) Identity(context.Context) (codec.Identity, error) { return identity, nil }

func (h history) Range(_ context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		for _, r := range h {
			if r.Addr.Compare(from) >= 0 && r.Addr.Compare(to) <= 0 && !yield(r, nil) {
				return
			}
		}
	}
}

const start = codec.Epoch + 1_000_000

// at is a message that came so many milliseconds after the start.
func at(ms, seq uint64, kind, key string) codec.Record {
	addr := codec.EntryID{Ms: start + ms, Seq: seq}
	id, _ := codec.ServerID(identity.Brand, identity.Node, addr)
	return codec.Record{ID: id, Position: codec.Position{Entry: addr}, Addr: addr, Message: codec.Message{Type: kind, Key: key, Data: []byte(addr.String())}}
}

// TestPace: messages go as they came, or faster, or slower, and no more than a rate allows; what is late goes at once, without a
// burst above the rate.
func TestPace(t *testing.T) {
	source := history{at(0, 0, "a", ""), at(100, 0, "a", ""), at(100, 1, "a", ""), at(1100, 0, "a", ""), at(61_100, 0, "a", "")}
	for name, tt := range map[string]struct {
		cfg   replay.Config
		takes []time.Duration // of the handler
		want  []time.Duration
	}{
		"at once":               {want: []time.Duration{0, 0, 0, 0, 0}},
		"as it came":            {cfg: replay.Config{Speed: 1}, want: []time.Duration{0, 100, 100, 1100, 61_100}},
		"ten times as fast":     {cfg: replay.Config{Speed: 10}, want: []time.Duration{0, 10, 10, 110, 6110}},
		"half as fast":          {cfg: replay.Config{Speed: .5}, want: []time.Duration{0, 200, 200, 2200, 122_200}},
		"a rate":                {cfg: replay.Config{Rate: 4}, want: []time.Duration{0, 250, 500, 750, 1000}},
		"whatever is slower":    {cfg: replay.Config{Rate: 4, Speed: 1}, want: []time.Duration{0, 250, 500, 1100, 61_100}},
		"late":                  {cfg: replay.Config{Speed: 1}, takes: []time.Duration{500, 0, 0, 0, 0}, want: []time.Duration{0, 500, 500, 1100, 61_100}},
		"no burst after a stop": {cfg: replay.Config{Rate: 10}, takes: []time.Duration{5000, 0, 0, 0, 0}, want: []time.Duration{0, 5000, 5100, 5200, 5300}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := replay.New(source, tt.cfg)
				require.NoError(t, err)
				begun := time.Now()
				var went []time.Duration
				require.NoError(t, r.Run(t.Context(), func(_ context.Context, d *consumer.Delivery) error {
					require.True(t, d.Replay)
					require.Equal(t, 1, d.Attempt)
					went = append(went, time.Since(begun)/time.Millisecond)
					if tt.takes != nil {
						time.Sleep(tt.takes[len(went)-1] * time.Millisecond)
					}
					return nil
				}))
				require.Equal(t, tt.want, went)
			})
		})
	}
}

// TestPaceOfCenturies: a pause that no duration holds is waited for, not skipped, and ends with its context.
func TestPaceOfCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := replay.New(history{at(0, 0, "a", ""), at(1, 0, "a", "")}, replay.Config{Speed: math.SmallestNonzeroFloat64})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
		defer cancel()
		n := 0
		require.ErrorIs(t, r.Run(ctx, func(context.Context, *consumer.Delivery) error { n++; return nil }), context.DeadlineExceeded)
		require.Equal(t, 1, n)
	})
}

func TestSelection(t *testing.T) {
	foreign := codec.Record{Addr: codec.EntryID{Ms: start + 5}, Fields: []string{"a", "b"}}
	source := history{at(0, 0, "a", "x"), at(1, 0, "b", "x"), at(2, 0, "a", "y"), foreign, at(9, 0, "a", "x")}
	for name, tt := range map[string]struct {
		cfg  replay.Config
		want []uint64
	}{
		"all":             {want: []uint64{0, 1, 2, 5, 9}},
		"a window":        {cfg: replay.Config{From: codec.EntryID{Ms: start + 1}, To: codec.EntryID{Ms: start + 5}}, want: []uint64{1, 2, 5}},
		"a moment":        {cfg: replay.Config{From: codec.EntryID{Ms: start + 1}, To: codec.EntryID{Ms: start + 1}}, want: []uint64{1}},
		"types":           {cfg: replay.Config{Types: []string{"a", "c"}}, want: []uint64{0, 2, 9}},
		"keys":            {cfg: replay.Config{Keys: []string{"x"}}, want: []uint64{0, 1, 9}},
		"types and keys":  {cfg: replay.Config{Types: []string{"a"}, Keys: []string{"x"}}, want: []uint64{0, 9}},
		"the empty type":  {cfg: replay.Config{Types: []string{""}}},
		"nothing of them": {cfg: replay.Config{Keys: []string{"z"}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := replay.New(source, tt.cfg)
			require.NoError(t, err)
			var got []uint64
			require.NoError(t, r.Run(t.Context(), func(_ context.Context, d *consumer.Delivery) error {
				got = append(got, d.Addr.Ms-start)
				return nil
			}))
			require.Equal(t, tt.want, got)
		})
	}
}

func TestRefused(t *testing.T) {
	for name, cfg := range map[string]replay.Config{
		"a window that ends before it begins": {From: codec.EntryID{Ms: 2}, To: codec.EntryID{Ms: 1, Seq: 9}},
		"a speed below 0":                     {Speed: -1},
		"no speed":                            {Speed: math.NaN()},
		"a rate below 0":                      {Rate: -0.1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replay.New(history{}, cfg)
			require.ErrorIs(t, err, replay.ErrConfig)
		})
	}
}

// TestRunEnds: with the first error of a handler, of the source, or of ctx.
func TestRunEnds(t *testing.T) {
	source := make(history, 0, 10)
	for i := range 10 {
		source = append(source, at(uint64(i), 0, "a", strconv.Itoa(i)))
	}
	r, err := replay.New(source, replay.Config{})
	require.NoError(t, err)
	failed := errors.New("failed")
	n := 0
	handler := func(context.Context, *consumer.Delivery) error {
		if n++; n == 4 {
			return fmt.Errorf("fourth: %w", failed)
		}
		return nil
	}
	require.ErrorIs(t, r.Run(t.Context(), handler), failed)
	require.Equal(t, 4, n)
	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	require.ErrorIs(t, r.Run(ctx, func(context.Context, *consumer.Delivery) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	}), context.Canceled)
	require.Equal(t, 3, n)
}

// TestHydrateWindow: of each key the newest message of the window, whatever came before it; those without a key are counted.
func TestHydrateWindow(t *testing.T) {
	source := history{at(0, 0, "a", "x"), at(1, 0, "b", "x"), at(2, 0, "a", "y"), at(3, 0, "a", ""), at(9, 0, "a", "x")}
	r, err := replay.New(source, replay.Config{To: source[3].Addr})
	require.NoError(t, err)
	var got []stream.Latest
	h, err := r.Hydrate(t.Context(), func(_ context.Context, latest []stream.Latest) (int, error) {
		got = append(got, latest...)
		return len(latest), nil
	}, nil)
	require.NoError(t, err)
	require.Equal(t, replay.Hydrated{Messages: 4, Keyless: 1, Written: 2, Last: source[3].Addr}, h)
	require.Equal(t, []stream.Latest{{Key: "x", At: source[1].Addr, Value: source[1].Data}, {Key: "y", At: source[2].Addr, Value: source[2].Data}}, got)
}

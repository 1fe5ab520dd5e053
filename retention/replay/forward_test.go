package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// target is a stream in memory, with the rules of a named producer, whose calls may be lost: on their way, or with their replies.
type target struct {
	log    []codec.Message
	last   uint64
	counts map[uint64]int // of the calls that are in the log
	late   []func()       // calls that are on their way though nobody waits for them
	when   []time.Time    // of calls
	fails  func() string  // the next call: "", "call", "reply" or "late"
}

func newTarget() *target {
	return &target{counts: map[uint64]int{}, fails: func() string { return "" }}
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

var errLost = errors.New("lost")

func (w *target) Position(context.Context) (uint64, error) { return w.last, nil }

func (w *target) AppendAfter(_ context.Context, after, position uint64, ms []codec.Message) ([]codec.ID, error) {
	w.when = append(w.when, time.Now())
	switch w.fails() {
	case "call":
		return nil, errLost
	case "reply":
		_ = w.append(after, position, ms)
		return nil, errLost
	case "late":
		w.late = append(w.late, func() { _ = w.append(after, position, ms) })
		return nil, errLost
	}
	return nil, w.append(after, position, ms)
}

func (w *target) append(after, position uint64, ms []codec.Message) error {
	switch n, known := w.counts[position]; {
	case known && n != len(ms):
		return stream.ErrPositionReused
	case known:
		return nil
	case position < w.last:
		return stream.ErrAlreadyAppended
	case after != w.last:
		return stream.ErrProducerMoved
	}
	w.last, w.counts[position] = position, len(ms)
	w.log = append(w.log, ms...)
	return nil
}

// TestForwardModel: whatever is interrupted, wherever, and whichever calls are still on their way then, each message is in the
// target once, in the order of the source, though each run cuts it into other calls and ends elsewhere.
func TestForwardModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var source history
		var ms, seq uint64
		for range rapid.IntRange(0, 1200).Draw(t, "messages") {
			if rapid.IntRange(0, 9).Draw(t, "next") == 0 {
				ms, seq = ms+rapid.Uint64Range(1, 50).Draw(t, "pause"), 0
			} else {
				seq++
			}
			source = append(source, at(ms, seq, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type"), "k"))
		}
		cfg := replay.Config{Types: []string{"a"}, Rate: rapid.SampledFrom([]float64{0, 1e9, 5e8}).Draw(t, "rate")}
		if rapid.Bool().Draw(t, "paced") {
			cfg.Speed = 1e9
		}
		w := newTarget()
		arrive := func() {
			if rapid.Bool().Draw(t, "arrives") {
				for _, call := range w.late {
					call()
				}
				w.late = nil
			}
		}
		w.fails = func() string {
			arrive() // when the next run has asked for the position, and has sent its own
			return rapid.SampledFrom([]string{"", "", "", "", "call", "reply", "late"}).Draw(t, "fails")
		}
		for try := 0; ; try++ {
			run := cfg
			if n := len(source); n > 0 && try <= 20 {
				run.To = source[rapid.IntRange(0, n-1).Draw(t, "end")].Addr
			}
			r, err := replay.New(source, run)
			require.NoError(t, err)
			if try > 20 {
				w.fails = func() string { return "" }
			}
			_, err = r.Forward(context.Background(), w, nil)
			if err == nil && run.To == cfg.To {
				break
			}
			if err != nil {
				require.True(t, isAny(err, errLost, stream.ErrProducerMoved, stream.ErrAlreadyAppended, stream.ErrPositionReused), "%v", err)
			}
			arrive()
		}
		for _, call := range w.late {
			call()
		}
		var want, got []string
		for _, r := range source {
			if r.Type == "a" {
				want = append(want, r.ID.String())
			}
		}
		for _, m := range w.log {
			of, _ := m.Headers.Get(codec.HeaderReplayOf)
			got = append(got, of)
		}
		require.Equal(t, want, got)
	})
}

// TestForwardRefusesOnePositionTwice: under host order the sequences of one millisecond do not fit into a position; what cannot be told apart is
// refused, not left out.
func TestForwardRefusesOnePositionTwice(t *testing.T) {
	source := history{at(0, 5, "a", ""), at(0, 5|1<<12, "a", "")}
	source[1].ID, _ = codec.HostID("ORD", source[1].Addr)
	r, err := replay.New(source, replay.Config{})
	require.NoError(t, err)
	_, err = r.Forward(t.Context(), newTarget(), nil)
	var refused *replay.PositionError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, source[1].Addr, refused.At)
}

// TestForwardKeepsPace: messages of a step go in one call, when the first of them is due.
func TestForwardKeepsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var source history
		for i := range uint64(100) {
			source = append(source, at(i*10, 0, "a", ""))
		}
		r, err := replay.New(source, replay.Config{Speed: 1})
		require.NoError(t, err)
		w := newTarget()
		begun := time.Now()
		f, err := r.Forward(t.Context(), w, nil)
		require.NoError(t, err)
		require.Equal(t, replay.Forwarded{Appended: 100, Last: source[99].Addr}, f)
		require.Len(t, w.when, 50)
		for i, when := range w.when {
			require.Equal(t, time.Duration(i)*20*time.Millisecond, when.Sub(begun))
		}
	})
}

// sized notes how large calls are.
type sized struct {
	*target
	largest int
}

func (s *sized) AppendAfter(ctx context.Context, after, position uint64, ms []codec.Message) ([]codec.ID, error) {
	bytes := 0
	for i := range ms {
		encoded, err := codec.AppendMessage(nil, &ms[i])
		if err != nil {
			return nil, err
		}
		bytes += len(encoded)
	}
	s.largest = max(s.largest, bytes)
	return s.target.AppendAfter(ctx, after, position, ms)
}

// TestForwardCountsHeaders: a call holds about a mebibyte, of which headers are a part as data are.
func TestForwardCountsHeaders(t *testing.T) {
	var source history
	for i := range uint64(500) {
		r := at(0, i, "a", "")
		for _, key := range []string{"x", "y", "z"} {
			r.Headers = append(r.Headers, codec.Header{Key: key, Value: strings.Repeat(key, 8000)})
		}
		source = append(source, r)
	}
	r, err := replay.New(source, replay.Config{})
	require.NoError(t, err)
	w := &sized{target: newTarget()}
	f, err := r.Forward(t.Context(), w, nil)
	require.NoError(t, err)
	require.Equal(t, 500, f.Appended)
	require.LessOrEqual(t, w.largest, 1<<20)
}

// TestForwardLeavesForeign: what holds no message is counted.
func TestForwardLeavesForeign(t *testing.T) {
	source := history{at(0, 0, "a", ""), {Addr: codec.EntryID{Ms: start + 1}, Fields: []string{"a", "b"}}, at(2, 0, "a", "")}
	r, err := replay.New(source, replay.Config{})
	require.NoError(t, err)
	w := newTarget()
	f, err := r.Forward(t.Context(), w, nil)
	require.NoError(t, err)
	require.Equal(t, replay.Forwarded{Appended: 2, Foreign: 1, Last: source[2].Addr}, f)
	require.Empty(t, source[0].Headers, "the source's messages stay as they are")
}

// TestForward: from stream to stream, interrupted after each call: all of it once, as it was, with whom it repeats; packs are opened.
func TestForward(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		client := tiertest.Dial(t, s)
		from, to := tiertest.AuditedScope(t, s)+"/orders", tiertest.AuditedScope(t, s)+"/copy"
		var ids []codec.ID
		for _, pack := range []int{1, 700} {
			w, err := stream.NewWriter(client, stream.WriterConfig{Address: from, Pack: pack})
			require.NoError(t, err)
			for i := range 2 {
				ms := make([]codec.Message, 1111)
				for k := range ms {
					ms[k] = codec.Message{Type: "t", Key: fmt.Sprint(pack, i, k), Data: []byte(strconv.Itoa(k)), Headers: codec.Headers{{Key: "a", Value: "b"}}}
				}
				got, err := w.AppendBatch(ctx, ms)
				require.NoError(t, err)
				ids = append(ids, got...)
			}
		}
		source, err := stream.NewReader(client, stream.ReaderConfig{Address: from})
		require.NoError(t, err)
		interrupted := errors.New("interrupted")
		for {
			r, err := replay.New(source, replay.Config{})
			require.NoError(t, err)
			w, err := stream.NewWriter(client, stream.WriterConfig{Address: to, Producer: "replay"})
			require.NoError(t, err)
			running, stop := context.WithCancelCause(ctx)
			f, err := r.Forward(running, w, func(replay.Forwarded) { stop(interrupted) })
			if f.Appended == 0 {
				require.NoError(t, err)
				require.Equal(t, codec.EntryID{}, f.Last)
				break
			}
			if err != nil {
				require.True(t, errors.Is(err, interrupted) || errors.Is(err, context.Canceled), "%v", err)
			}
			stop(nil)
		}
		copied, err := stream.NewReader(client, stream.ReaderConfig{Address: to})
		require.NoError(t, err)
		n := 0
		for r, err := range copied.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
			require.NoError(t, err)
			of, _ := r.Headers.Get(codec.HeaderReplayOf)
			require.Equal(t, ids[n].String(), of)
			require.True(t, r.Repeats())
			if n%400 == 0 {
				original, err := source.Get(ctx, ids[n])
				require.NoError(t, err)
				require.Equal(t, original.Key, r.Key)
				require.Equal(t, original.Data, r.Data)
				require.Equal(t, original.Headers, r.Headers[:1])
			}
			n++
		}
		require.Len(t, ids, n)
	})
}

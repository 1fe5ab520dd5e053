package stream_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func (f *fixture) records(cfg stream.RecordsConfig) *stream.Records {
	f.t.Helper()
	cfg.Address, cfg.Name = f.address, "mailer"
	r, err := stream.NewRecords(f.client, cfg)
	require.NoError(f.t, err)
	return r
}

// record is the state of an effect, and how many began it.
func (f *fixture) record(id string) string {
	parts := strings.Fields(f.text("GET", f.addr().DoneKey("mailer", id)))
	if len(parts) == 0 {
		return "none"
	}
	return parts[0] + " " + parts[5]
}

func (f *fixture) begin(r *stream.Records, id string, attempt int) stream.Effect {
	f.t.Helper()
	e, err := r.Begin(f.ctx, id, attempt)
	require.NoError(f.t, err)
	return e
}

// TestRecords: what each begin is told, after each way in which the one before it ended, and how long the record lives.
func TestRecords(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		r := f.records(stream.RecordsConfig{})
		left := func(id string, want time.Duration) {
			t.Helper()
			ms, err := strconv.Atoi(f.text("PTTL", f.addr().DoneKey("mailer", id)))
			require.NoError(t, err)
			require.InDelta(t, want.Milliseconds(), ms, 120_000)
		}
		now := f.now()

		e := f.begin(r, "a", 1)
		require.Equal(t, stream.EffectBegun, e.State)
		require.Zero(t, e.Earlier)
		require.WithinDuration(t, now, e.First, time.Minute)
		left("a", stream.DefaultKeepOpen)
		require.NoError(t, r.Withdraw(f.ctx, e))
		require.Equal(t, "none", f.record("a"))

		e = f.begin(r, "a", 1)
		require.Zero(t, e.Earlier, "the one that was withdrawn does not count")
		require.NoError(t, r.Leave(f.ctx, e))
		left("a", stream.DefaultKeepOpen)
		again := f.begin(r, "a", 1) // at once, and of the same attempt, as after a stop
		require.Equal(t, stream.EffectBegun, again.State)
		require.Equal(t, 1, again.Earlier)
		require.Equal(t, e.First, again.First)
		require.NoError(t, r.Withdraw(f.ctx, again))
		require.Equal(t, "left 1", f.record("a"), "the first may have had its effect")

		require.NoError(t, r.Leave(f.ctx, f.begin(r, "c", 3)))
		require.Equal(t, stream.EffectHeld, f.begin(r, "c", 2).State, "of who has lost it")

		last := f.begin(r, "a", 2)
		require.Equal(t, 1, last.Earlier)
		require.NoError(t, r.Done(f.ctx, last))
		left("a", stream.DefaultKeep)
		for attempt := range 3 {
			require.Equal(t, stream.EffectDone, f.begin(r, "a", attempt).State)
		}
		require.NoError(t, r.Leave(f.ctx, last))
		require.NoError(t, r.Withdraw(f.ctx, last))
		require.Equal(t, "done 2", f.record("a"))

		require.Equal(t, stream.EffectBegun, f.begin(r, "b", 1).State, "another message")
	})
}

// TestRecordsOfTheDead: of an effect whose process died, a later attempt knows at once; one that is not later, as after a
// redrive or a reset, is held off as long as Hold says. One that was frozen can end only what it has begun itself, but that
// it is done holds.
func TestRecordsOfTheDead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		r := f.records(stream.RecordsConfig{Hold: time.Hour})
		frozen := f.begin(r, "a", 3)
		held := f.begin(r, "a", 3)
		require.Equal(t, stream.EffectHeld, held.State)
		require.InDelta(t, time.Hour, held.Wait, float64(time.Minute))
		require.Equal(t, stream.EffectHeld, f.begin(r, "a", 1).State)
		require.ErrorIs(t, r.Done(f.ctx, held), stream.ErrBadCall)

		now := f.begin(r, "a", 4)
		require.Equal(t, stream.EffectBegun, now.State)
		require.Equal(t, 1, now.Earlier)
		require.NoError(t, r.Leave(f.ctx, frozen))
		require.NoError(t, r.Withdraw(f.ctx, frozen))
		require.Equal(t, "begun 2", f.record("a"))
		require.Equal(t, stream.EffectHeld, f.begin(r, "a", 3).State, "the frozen one cannot begin again")
		require.NoError(t, r.Done(f.ctx, frozen))
		require.Equal(t, stream.EffectDone, f.begin(r, "a", 5).State)
		record := f.text("GET", f.addr().DoneKey("mailer", "a"))
		require.NoError(t, r.Done(f.ctx, now))
		require.Equal(t, record, f.text("GET", f.addr().DoneKey("mailer", "a")), "the first stays, and its time is not prolonged")

		// The hold ends by the server's clock.
		short := f.records(stream.RecordsConfig{Hold: time.Millisecond})
		f.begin(short, "b", 3)
		var e stream.Effect
		tiertest.Eventually(t, time.Minute, func() (bool, string) {
			e = f.begin(short, "b", 1)
			return e.State == stream.EffectBegun, fmt.Sprint(e)
		})
		require.Equal(t, 1, e.Earlier)

		// A record that was lost meanwhile.
		f.do("DEL", f.addr().DoneKey("mailer", "b"))
		require.NoError(t, r.Leave(f.ctx, e))
		require.Equal(t, "none", f.record("b"))
		require.NoError(t, r.Done(f.ctx, e))
		require.Equal(t, "done 1", f.record("b"))
	})
}

// TestRecordsAtOnce: of many that begin at the same time, one is to do it.
func TestRecordsAtOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		r := f.records(stream.RecordsConfig{})
		var begun [20]atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range begun {
					e, err := r.Begin(f.ctx, fmt.Sprint(i), 1)
					if err != nil {
						t.Error(err)
						return
					}
					if e.State == stream.EffectBegun {
						begun[i].Add(1)
					}
				}
			})
		}
		wg.Wait()
		for i := range begun {
			require.EqualValues(t, 1, begun[i].Load())
		}
	})
}

// TestRecordsModel: any order of begins and ends of several callers, against a twin in memory.
func TestRecordsModel(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	r := f.records(stream.RecordsConfig{Hold: time.Hour})
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		id := strconv.Itoa(runs)
		var (
			effects          []stream.Effect
			state            = "none"
			owner, at, times = -1, 0, 0
		)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			if len(effects) == 0 || rapid.Bool().Draw(rt, "begin") {
				attempt := rapid.IntRange(1, 4).Draw(rt, "attempt")
				e, err := r.Begin(f.ctx, id, attempt)
				require.NoError(rt, err)
				require.Equal(rt, times, e.Earlier)
				switch {
				case state == "done":
					require.Equal(rt, stream.EffectDone, e.State)
				case state == "begun" && attempt <= at, state == "left" && attempt < at:
					require.Equal(rt, stream.EffectHeld, e.State)
				default:
					require.Equal(rt, stream.EffectBegun, e.State)
					owner, at, state = len(effects), attempt, "begun"
					times++
					effects = append(effects, e)
				}
				continue
			}
			i := rapid.IntRange(0, len(effects)-1).Draw(rt, "who")
			how := rapid.SampledFrom([]string{"done", "left", "none"}).Draw(rt, "how")
			end := map[string]func() error{
				"done": func() error { return r.Done(f.ctx, effects[i]) },
				"left": func() error { return r.Leave(f.ctx, effects[i]) },
				"none": func() error { return r.Withdraw(f.ctx, effects[i]) },
			}[how]
			require.NoError(rt, end())
			require.NoError(rt, end(), "as after a lost reply")
			switch {
			case how == "done":
				state, times = "done", max(times, 1)
			case state != "begun" || owner != i:
			case how == "none" && times == 1:
				state, times = "none", 0
			case how == "none":
				state, times = "left", times-1
			default:
				state = "left"
			}
			want := state
			if state != "none" {
				want = fmt.Sprint(state, " ", times)
			}
			require.Equal(rt, want, f.record(id))
		}
	})
}

// TestRecordsRefuse: what breaks a rule is refused before anything is sent.
func TestRecordsRefuse(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	for _, cfg := range []stream.RecordsConfig{
		{Address: "shop", Name: "g"},
		{Address: "shop/orders"},
		{Address: "shop/orders", Name: "a:b"},
		{Address: "shop/orders", Name: "g", Keep: -1},
		{Address: "shop/orders", Name: "g", Keep: stream.MaxKeep + 1},
		{Address: "shop/orders", Name: "g", KeepOpen: time.Microsecond},
		{Address: "shop/orders", Name: "g", Hold: -time.Hour},
	} {
		_, err := stream.NewRecords(f.client, cfg)
		require.Error(t, err, cfg)
	}
	r := f.records(stream.RecordsConfig{})
	_, err := r.Begin(f.ctx, "", 1)
	require.ErrorIs(t, err, stream.ErrBadCall)
	require.ErrorIs(t, r.Done(f.ctx, stream.Effect{}), stream.ErrBadCall)
}

// TestRecordsGoWithTheStream: the removal of a stream takes its records along, and they are about as large as their
// documentation says.
func TestRecordsGoWithTheStream(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	id, err := f.writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
	require.NoError(t, err)
	r := f.records(stream.RecordsConfig{})
	require.NoError(t, r.Done(f.ctx, f.begin(r, id.String(), 1)))
	size, err := strconv.Atoi(f.text("MEMORY", "USAGE", f.addr().DoneKey("mailer", id.String())))
	require.NoError(t, err)
	require.InDelta(t, 200, size, 100)
	_, err = stream.Remove(f.ctx, f.client, f.address)
	require.NoError(t, err)
	require.Equal(t, "none", f.record(id.String()))
}

// TestRecordsWithoutReply (B74): a begin that is never answered says that its outcome is unknown.
func TestRecordsWithoutReply(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	_, err := f.records(stream.RecordsConfig{}).Begin(f.ctx, "first", 1) // from now on the server knows the script
	require.NoError(t, err)
	proxy.DropReplies(1_000_000, func(cmd []string) bool { return cmd[0] == "EVALSHA" || cmd[0] == "EVAL" })
	_, err = f.records(stream.RecordsConfig{}).Begin(f.ctx, "k", 1)
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	require.Equal(t, "begun 1", f.record("k"))
}

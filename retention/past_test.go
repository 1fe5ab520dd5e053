package retention_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// annals are a stream whose beginning is in the archive only.
type annals struct {
	*stage
	addr    tier.Address
	store   *archive.Memory
	sweeper *retention.Sweeper
	reader  *retention.Reader
	past    *retention.Past
	rounds  int
}

// newAnnals makes one of plain entries, packs and entries of another program, all of which are archived and gone.
func newAnnals(t *testing.T, srv *tiertest.Server) *annals {
	a := &annals{stage: newStage(t, srv), store: &archive.Memory{}}
	a.addr, _ = tier.ParseAddress(a.address("orders"))
	a.writes(400)
	a.declare("orders", stream.Retention{Settled: true, Exact: true, Archive: "mem://store", SegmentBytes: 20_000, SegmentAge: time.Millisecond})
	stores := func(context.Context, string) (archive.Store, error) { return a.store, nil }
	a.sweeper = a.stage.sweeper(retention.SweeperConfig{Settle: time.Millisecond, Temp: t.TempDir(), Stores: stores})
	a.past = retention.NewPast(a.client, stores)
	archived, err := archive.NewReader(a.store, archive.ReaderConfig{Address: a.addr.String()})
	require.NoError(t, err)
	a.reader = a.stage.reader("orders", retention.ReaderConfig{Archive: archived})
	tier.Pause(a.ctx, 5*time.Millisecond)
	_, err = a.sweeper.Archive(a.ctx)
	require.NoError(t, err)
	_, err = a.sweeper.Once(a.ctx)
	require.NoError(t, err)
	require.Zero(t, a.holdings("orders").Length)
	return a
}

// writes appends about n messages, some of them in packs, and an entry of another program.
func (a *annals) writes(n int) {
	a.t.Helper()
	for _, pack := range []int{1, 7} {
		w, err := stream.NewWriter(a.client, stream.WriterConfig{Address: a.addr.String(), Pack: pack})
		require.NoError(a.t, err)
		a.rounds++
		_, err = w.AppendBatch(a.ctx, keyed(n/2, a.rounds))
		require.NoError(a.t, err)
	}
	a.do("XADD", a.addr.LogKey(), "*", "temperature", "21")
}

func (a *annals) cursor(name string, past stream.Past) *stream.Cursor {
	a.t.Helper()
	c, err := stream.NewCursor(a.client, stream.CursorConfig{Address: a.addr.String(), Name: name, Start: stream.Head(), Lease: time.Second, Past: past})
	require.NoError(a.t, err)
	return c
}

func (a *annals) state(name string) map[string]string {
	a.t.Helper()
	key := tier.StateKey(a.scope, name)
	m, err := a.client.Do(a.ctx, key, a.client.B().Hgetall().Key(key).Build())
	require.NoError(a.t, err)
	state, err := m.AsStrMap()
	require.NoError(a.t, err)
	return state
}

// TestCursorBeginsInTheArchive: a cursor that begins at the head is given what the archive has, and then what the log has, each once and in the
// order of its key, while the border moves: what fails comes again, what is given up is a dead letter with its bytes, and another
// owner goes on where the one before it ended.
func TestCursorBeginsInTheArchive(t *testing.T) {
	a := newAnnals(t, tiertest.Shared(t, tiertest.Valkey))
	a.writes(100)
	without, err := a.cursor("without", nil).Join(a.ctx, "m")
	require.NoError(t, err)
	leased, err := without.Read(a.ctx, 10, 0)
	require.NoError(t, err)
	require.Positive(t, leased[0].Entry.Compare(a.holdings("orders").First.Prev()), "what the log has")
	require.NoError(t, a.cursor("without", nil).Delete(a.ctx))

	stop := a.runs(a.stage.sweeper(retention.SweeperConfig{
		Beat: 5 * time.Millisecond, Settle: time.Millisecond, Temp: t.TempDir(),
		Stores: func(context.Context, string) (archive.Store, error) { return a.store, nil },
	}))
	var mu sync.Mutex
	last := map[string]codec.EntryID{}
	var handled atomic.Int64
	handler := func(_ context.Context, d *consumer.Delivery) error {
		n := handled.Add(1)
		switch {
		case d.Foreign() && len(d.Fields) == 2 || d.Position.Index == 3:
			return consumer.Permanent(fmt.Errorf("no"))
		case n%60 == 0 && d.Attempt == 1:
			return consumer.RetryAfter(fmt.Errorf("later"), time.Millisecond)
		}
		d.Emit(tier.HashIncrement("seen", d.Addr.String(), 1))
		mu.Lock()
		defer mu.Unlock()
		assert.Positive(t, d.Addr.Compare(last[d.Key]), "order of %s: %s after %s, attempt %d", d.Key, d.Addr, last[d.Key], d.Attempt)
		last[d.Key] = d.Addr
		return nil
	}
	run := func(until func() bool) {
		ctx, end := context.WithCancel(a.ctx)
		c, err := consumer.New(consumer.Exclusive(a.cursor("ledger", a.past)), handler, consumer.Config{Order: consumer.ByKey, Concurrency: 4, MaxInFlight: 50})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		tiertest.Eventually(t, soon, func() (bool, string) {
			return until() || len(done) > 0, fmt.Sprint(handled.Load(), " handled")
		})
		end()
		require.NoError(t, <-done)
	}
	run(func() bool { return handled.Load() > 150 })
	mu.Lock()
	clear(last) // what was not committed comes again
	mu.Unlock()
	a.writes(100)
	run(func() bool { return handled.Load() > 500 })
	a.writes(100)
	mu.Lock()
	clear(last)
	mu.Unlock()
	want, dead := map[string]string{}, 0
	for _, r := range a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID)) {
		if r.Foreign() || r.Position.Index == 3 {
			dead++
		} else {
			want[r.Addr.String()] = "1"
		}
	}
	require.Len(t, want, 700-dead+4)
	run(func() bool { return len(a.state("seen")) == len(want) })
	require.Equal(t, want, a.state("seen"))
	stop()
	for letter, err := range stream.DeadLetters(a.ctx, a.client, a.addr.String(), "ledger") {
		require.NoError(t, err)
		if letter.Index < 0 {
			require.Equal(t, []string{"temperature", "21"}, letter.Fields)
		} else {
			require.Equal(t, 3, letter.Index)
			require.NoError(t, letter.Record.Err)
			require.Equal(t, "t", letter.Record.Type)
		}
		dead--
	}
	require.Zero(t, dead)
	a.becomes("orders", a.holdings("orders").Length)
	_, err = a.sweeper.Once(a.ctx)
	require.NoError(t, err)
}

// TestGroupInTheArchive: a group that would begin with what only the archive has is refused, with what to do; one that is there keeps its place.
func TestGroupInTheArchive(t *testing.T) {
	a := newAnnals(t, tiertest.Shared(t, tiertest.Valkey))
	newest, err := a.reader.Newest(a.ctx)
	require.NoError(t, err)
	group := func(start stream.Start) *stream.Group {
		g, err := stream.NewGroup(a.client, stream.GroupConfig{Address: a.addr.String(), Name: "mailer", Start: start})
		require.NoError(t, err)
		return g
	}
	inside := group(stream.FromEntry(newest))
	var refused *stream.ArchivedStartError
	require.ErrorAs(t, inside.Create(a.ctx), &refused)
	require.ErrorContains(t, refused, "pipeline replay "+a.addr.String()+" --from "+newest.String())
	require.NoError(t, group(stream.FromEntry(newest.Next())).Create(a.ctx))
	require.NoError(t, inside.Create(a.ctx))
	_, err = inside.Reset(a.ctx, stream.FromEntry(newest))
	require.ErrorAs(t, err, &refused)
}

// noStore is an archive that must not be asked.
type noStore struct{ t *testing.T }

func (n noStore) Segments(context.Context) (archive.Segments, error) {
	n.t.Error("the store is asked")
	return archive.Segments{}, nil
}

func (n noStore) Range(context.Context, codec.EntryID, codec.EntryID) iter.Seq2[codec.Record, error] {
	return nil
}

// TestAboveTheBorder: what lies above all that is archived is not looked for in the store, also when the log is empty.
func TestAboveTheBorder(t *testing.T) {
	a := newAnnals(t, tiertest.Shared(t, tiertest.Valkey))
	newest, err := a.reader.Newest(a.ctx)
	require.NoError(t, err)
	a.do("XSETID", a.addr.LogKey(), codec.EntryID{Ms: newest.Ms + 1}.String()) // as a writer does behind sequence 4095
	r := a.stage.reader("orders", retention.ReaderConfig{Archive: noStore{t}})
	require.Empty(t, a.collected(r.Range(a.ctx, newest.Next(), codec.MaxEntryID)))
}

// tally of a key: the order would show.
func tally(sum uint64, d *consumer.Delivery) (uint64, error) {
	return sum*31 + uint64(d.Addr.Ms)*4096 + d.Addr.Seq, nil
}

// TestProjectionsBeginInTheArchive: a version that is made anew, by an owner or in memory, folds all that there ever was.
func TestProjectionsBeginInTheArchive(t *testing.T) {
	a := newAnnals(t, tiertest.Shared(t, tiertest.Valkey))
	a.writes(100)
	want := map[string]uint64{}
	for _, r := range a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID)) {
		if r.Foreign() { // has no key
			continue
		}
		want[r.Key], _ = tally(want[r.Key], &consumer.Delivery{Record: r})
	}
	ctx, stop := context.WithCancel(a.ctx)
	var folded atomic.Int64
	table, err := projection.NewTable(a.client, projection.TableConfig[uint64]{
		Config: projection.Config{Address: a.addr.String(), Name: "sums", Past: a.past},
		Fold:   func(sum uint64, d *consumer.Delivery) (uint64, error) { folded.Add(1); return tally(sum, d) },
	})
	require.NoError(t, err)
	memory, err := projection.NewMemory(a.client, projection.MemoryConfig[map[string]uint64]{
		Address: a.addr.String(), Name: "all", History: a.reader,
		New: func() map[string]uint64 { return map[string]uint64{} },
		Fold: func(sums map[string]uint64, d *consumer.Delivery) (map[string]uint64, error) {
			if !d.Foreign() {
				sums[d.Key], _ = tally(sums[d.Key], d)
			}
			return sums, nil
		},
	})
	require.NoError(t, err)
	done := make(chan error, 2)
	go func() { done <- table.Run(ctx) }()
	go func() { done <- memory.Run(ctx) }()
	select {
	case <-memory.Ready():
	case err := <-done:
		require.NoError(t, err)
	}
	memory.View(func(sums map[string]uint64) { require.Equal(t, want, sums) })
	view, err := projection.NewView[uint64](a.client, a.scope, "sums", nil)
	require.NoError(t, err)
	tiertest.Eventually(t, soon, func() (bool, string) {
		sums, err := view.GetAll(a.ctx, "k0", "k1", "k2", "k3")
		return err == nil && fmt.Sprint(sums) == fmt.Sprint(want), fmt.Sprint(folded.Load(), " folded, ", err)
	})
	stop()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

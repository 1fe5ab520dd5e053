package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// damaged is what a test of the audit starts from: of five entries the first two are through, the second of them parked, and so is
// the fourth.
type damaged struct {
	*fixture
	ids []codec.EntryID
}

func (d *damaged) set(value, text string) {
	d.do("HSET", d.addr().CursorsKey(), tier.CursorField("c", value), text)
}

func (d *damaged) drop(value string) {
	d.do("HDEL", d.addr().CursorsKey(), tier.CursorField("c", value))
}

// TestCheckOfCursors breaks what holds of a cursor, one by one: each has one finding.
func TestCheckOfCursors(t *testing.T) {
	t.Parallel()
	cursors := func(d *damaged) string { return d.addr().CursorsKey() }
	retry := func(d *damaged) string { return d.addr().RetryKey("c") }
	open := func(d *damaged) string { return d.addr().OpenKey("c") }
	type damage struct {
		spoil func(d *damaged)
		key   func(d *damaged) string
		says  string
	}
	tests := map[string]damage{
		"the hash is none":          {func(d *damaged) { d.do("DEL", cursors(d)); d.do("SET", cursors(d), "x") }, cursors, "holds a string"},
		"a field of nobody":         {func(d *damaged) { d.do("HSET", cursors(d), "a b:epoch", "1") }, cursors, "a b"},
		"a field of nothing":        {func(d *damaged) { d.do("HSET", cursors(d), "c", "1") }, cursors, "no cursor has"},
		"a value of none":           {func(d *damaged) { d.set("colour", "red") }, cursors, "colour"},
		"values without an epoch":   {func(d *damaged) { d.drop("epoch"); d.do("DEL", retry(d), open(d)) }, cursors, "has no epoch"},
		"there, and deleted":        {func(d *damaged) { d.set("deleted", "1796019904537") }, cursors, "was deleted, and has values"},
		"deleted at no time":        {func(d *damaged) { d.do("HSET", cursors(d), "other:deleted", "yes") }, cursors, "was deleted at"},
		"owned by no name":          {func(d *damaged) { d.set("owner", "a b") }, cursors, "no consumer's name"},
		"paused since no time":      {func(d *damaged) { d.set("paused", "yes") }, cursors, "paused all the same"},
		"a lease that is too short": {func(d *damaged) { d.set("lease", "10") }, cursors, "lease"},
		"crashes that are none":     {func(d *damaged) { d.set("crashes", "2 times") }, cursors, "crashes"},
		"passed more than was":      {func(d *damaged) { d.set("passed", "6") }, cursors, "passed"},
		"more added than ever was":  {func(d *damaged) { d.set("added", "6") }, cursors, "it was lost"},
		"beyond the end":            {func(d *damaged) { d.set("at", d.ids[4].Next().String()) }, cursors, "it was lost"},
		"above that is no address":  {func(d *damaged) { d.set("above", d.ids[3].String()+" x") }, cursors, "no address"},
		"above below":               {func(d *damaged) { d.set("above", d.ids[0].String()+" "+d.ids[3].String()) }, cursors, "does not stand above"},
		"above out of order":        {func(d *damaged) { d.set("above", d.ids[4].String()+" "+d.ids[3].String()) }, cursors, "does not stand above"},
		"above beyond the end":      {func(d *damaged) { d.set("above", d.ids[3].String()+" "+d.ids[4].Next().String()) }, cursors, "beyond the end"},
		"of a group's name": {func(d *damaged) {
			d.do("XGROUP", "CREATE", d.log(), "c", "0")
		}, cursors, "has the name of a group"},
		"of a lost group's name":      {func(d *damaged) { d.do("HSET", d.addr().GroupKey("c"), "lease", "60000") }, cursors, "has the name of a group"},
		"parked, and not read":        {func(d *damaged) { d.set("above", "") }, retry, "still to be read"},
		"parked, and a checkpoint":    {func(d *damaged) { d.set("at", d.ids[0].String()); d.set("passed", "1") }, retry, "still to be read"},
		"parked without a row":        {func(d *damaged) { d.do("HDEL", open(d), d.ids[1].String()) }, retry, "nothing says what is open"},
		"taken up without a row":      {func(d *damaged) { d.do("ZADD", retry(d), "4503599627370497", d.ids[0].String()) }, retry, "nothing says what is open"},
		"a row of what is not parked": {func(d *damaged) { d.do("ZREM", retry(d), d.ids[1].String()) }, open, "is not parked"},
		"a row of what is unread":     {func(d *damaged) { d.do("HSET", open(d), d.ids[4].String(), "1 0 1 0") }, open, "is not parked"},
		"a row that is none":          {func(d *damaged) { d.do("HSET", open(d), d.ids[1].String(), "x") }, open, "says of nothing"},
		"what is parked is none":      {func(d *damaged) { d.do("DEL", retry(d), open(d)); d.do("SET", retry(d), "x") }, retry, "holds a string"},
		"a letter of nothing":         {func(d *damaged) { d.do("XADD", d.addr().DeadKey("c"), "*", "a", "b") }, func(d *damaged) string { return d.addr().DeadKey("c") }, "redriven"},
		"parked by one that is gone": {func(d *damaged) {
			for _, value := range []string{"owner", "epoch", "until", "lease", "start", "at", "above", "commit", "reach", "crashes", "live", "added", "passed"} {
				d.drop(value)
			}
			d.set("deleted", "1796019904537")
		}, retry, "deleted since"},
	}
	for _, value := range []string{"epoch", "until", "commit", "added", "start", "at", "reach", "live", "passed"} {
		tests["damaged "+value] = damage{func(d *damaged) { d.set(value, "x") }, cursors, value}
	}
	for _, value := range []string{"owner", "until", "lease", "start", "above", "commit", "reach", "crashes", "live", "added"} {
		tests["no "+value] = damage{func(d *damaged) {
			d.do("DEL", retry(d), open(d)) // which the audit may say is still to be read, too
			d.drop(value)
		}, cursors, "has no " + value}
	}
	s := tiertest.Private(t, tiertest.Valkey)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, s)
			d := &damaged{fixture: f}
			f.append(f.writer(stream.WriterConfig{}), 5)
			o := f.own(f.cursor("c", stream.Head(), lease))
			d.ids = entriesOf(f.owned(o, 4))
			again := []tier.Open{{Attempt: 1}}
			require.NoError(t, o.Commit(f.ctx, []tier.Ending{
				{Entry: d.ids[0], Deliveries: 1}, {Entry: d.ids[1], Deliveries: 1, Open: again}, {Entry: d.ids[3], Deliveries: 1, Open: again},
			}))
			d.ids = append(d.ids, f.all()[4].Position.Entry)
			check := func() error { return stream.Check(f.ctx, f.client, f.addr().Scope) }
			require.NoError(t, check())
			tt.spoil(d)
			found := findings(t, check())
			require.Len(t, found, 1, "%v", found)
			require.Contains(t, found[tt.key(d)], tt.says)
			f.do("DEL", cursors(d), retry(d), open(d), d.addr().DeadKey("c"), d.addr().GroupKey("c")) // the audit at the end has nothing to find
		})
	}
}

// TestCheckOfBusyCursors: while members come and go, die, park and take up again, and messages are appended, the audit
// finds nothing.
func TestCheckOfBusyCursors(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		ctx, stop := context.WithCancel(f.ctx)
		var busy sync.WaitGroup
		busy.Go(func() {
			for ctx.Err() == nil {
				if _, err := w.AppendBatch(ctx, messages(1+rand.IntN(20))); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				tier.Pause(ctx, 5*time.Millisecond)
			}
		})
		for _, name := range []string{"b", "c"} {
			for range 2 {
				busy.Go(func() {
					for ctx.Err() == nil {
						if err := stint(ctx, f.cursor(name, stream.Head(), stream.MinLease)); err != nil && ctx.Err() == nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		audits, busyOnes := 0, map[string]bool{}
		tiertest.Eventually(t, time.Minute, func() (bool, string) {
			require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
			audits++
			all, err := stream.Cursors(f.ctx, f.client, f.address)
			if errors.Is(err, stream.ErrNoStream) {
				return false, err.Error()
			}
			require.NoError(t, err)
			for i := range all {
				if n, _ := strconv.Atoi(f.row(all[i].Name, "passed")); n > 200 && all[i].Parked+all[i].Dead > 0 {
					busyOnes[all[i].Name] = true
				}
			}
			return audits >= 50 && len(busyOnes) == 2, fmt.Sprint(audits, " audits, busy: ", busyOnes)
		})
		stop()
		busy.Wait()
	})
}

// stint is a member at work for a while: it settles, parks and gives up at random, then hands over or is gone.
func stint(ctx context.Context, c *stream.Cursor) error {
	o, err := c.Join(ctx, "m")
	if err != nil {
		return err
	}
	for range 5 + rand.IntN(20) {
		if _, err := o.Renew(ctx, nil); err != nil && !errors.Is(err, tier.ErrFenced) {
			return err
		}
		leased, err := o.Read(ctx, 20, 5*time.Millisecond)
		if errors.Is(err, tier.ErrFenced) {
			if _, err = o.Sync(ctx); err == nil {
				continue
			}
		}
		taken, _ := o.Due(ctx, 5)
		if leased = append(leased, taken.Leased...); err != nil || len(leased) == 0 {
			if err != nil {
				return err
			}
			continue
		}
		rand.Shuffle(len(leased), func(i, k int) { leased[i], leased[k] = leased[k], leased[i] })
		var endings []tier.Ending
		for _, l := range leased[:1+rand.IntN(len(leased))] {
			e := tier.Ending{Entry: l.Entry, Deliveries: l.Deliveries}
			switch rand.IntN(6) {
			case 0:
				e.Open = []tier.Open{{Attempt: 1, Delay: time.Duration(rand.IntN(20)) * time.Millisecond}}
			case 1:
				e.Dead = []tier.Letter{{Index: -1, Reason: "r", Attempts: 1}}
			}
			endings = append(endings, e)
		}
		if err := o.Commit(ctx, endings); err != nil && !errors.Is(err, tier.ErrFenced) {
			return err
		}
	}
	if rand.IntN(2) == 0 {
		return nil // as one that was killed
	}
	held, err := o.Sync(ctx)
	if err != nil {
		return err
	}
	back := make([]tier.Returned, len(held))
	for i := range held {
		back[i] = tier.Returned{Held: held[i]}
	}
	if err := o.Release(ctx, back, 0); err != nil && !errors.Is(err, tier.ErrFenced) {
		return err
	}
	return o.Leave(ctx)
}

package topology_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

// fixture is a server and a name of the test's own, for its topology, its scope and its queue.
type fixture struct {
	testing.TB
	ctx    context.Context
	client *tier.Client
	own    string
}

func setUp(t testing.TB, s *tiertest.Server) *fixture {
	return &fixture{t, t.Context(), tiertest.Dial(t, s), tiertest.AuditedScope(t, s)}
}

func (f *fixture) queue() string { return f.own + "q" }

// document is one of the test's names: S stands for the scope, Q for the queue.
func (f *fixture) document(text string) *topology.Document {
	f.Helper()
	text = strings.NewReplacer("NAME", f.own, "SCOPE", f.own, "QUEUE", f.queue()).Replace(text)
	doc, err := files{"doc.yaml": text}.load(nil)
	require.NoError(f, err)
	return doc
}

func (f *fixture) plan(d *topology.Document) *topology.Plan {
	f.Helper()
	p, err := topology.PlanOf(f.ctx, f.client, d)
	require.NoError(f, err)
	return p
}

// lines are the changes, a line each.
func (f *fixture) lines(list []topology.Change) (lines []string) {
	for _, c := range list {
		line := string(c.Verb) + " " + c.Thing()
		for _, d := range c.Attributes {
			line += fmt.Sprintf(" %s %q>%q", d.Attribute, d.From, d.To)
		}
		lines = append(lines, strings.NewReplacer(f.queue(), "QUEUE", f.own, "SCOPE").Replace(line))
	}
	return lines
}

func (f *fixture) apply(d *topology.Document) {
	f.Helper()
	require.NoError(f, f.plan(d).Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}))
	require.Empty(f, f.lines(f.plan(d).Changes), "an applied plan is empty")
	drifted, err := topology.Drift(f.ctx, f.client, d.Name)
	require.NoError(f, err)
	require.Empty(f, f.lines(drifted))
}

// destroyed takes all away that the test has declared.
func (f *fixture) destroyed() {
	f.Helper()
	p, err := topology.Destruction(f.ctx, f.client, f.own)
	require.NoError(f, err)
	require.NoError(f, p.Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}))
	p, err = topology.Destruction(f.ctx, f.client, f.own)
	require.NoError(f, err)
	require.Empty(f, p.Changes)
}

const shop = `topology: NAME
scopes:
  SCOPE:
    streams:
      in: {brand: ORD, external: true, retention: {max_length: 10, settled: true}, groups: {mailer: {lease: 5s}}}
      out: {keyed: true}
queues:
  QUEUE:
    ceiling: 5
    lanes: {vip: {weight: 3}}
    schedules: {tick: {every: 1h, type: tick, data: {n: 1}}}
stages: {pass: {from: SCOPE/in, to: SCOPE/out, filter: "true"}}
`

// TestPlan: what is declared is made in its order, changed, refused, and destroyed the other way round.
func TestPlan(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		doc := f.document(shop)
		require.Equal(t, []string{
			`create stream SCOPE/in brand "">"ORD" retention "">"max-length=10 settled"`, `create stream SCOPE/out kind "">"keyed"`,
			`create group mailer of SCOPE/in lease "">"5s"`, `create cursor pass of SCOPE/in`,
			`create queue QUEUE ceiling "">"5"`, `create lane vip of QUEUE weight "">"3"`,
			`create schedule tick of QUEUE data "">"sha256:2bfd14f43d17" every "">"1h" type "">"tick"`,
		}, f.lines(f.plan(doc).Changes))
		f.apply(doc)
		policy, err := stream.RetentionOf(f.ctx, f.client, f.own+"/in")
		require.NoError(t, err)
		require.Equal(t, stream.Retention{MaxLength: 10, Settled: true}, policy)

		changed := f.document(strings.NewReplacer("max_length: 10, settled: true", "max_age: 1d", "ceiling: 5", "rate: 10/1m", "{n: 1}", "{n: 2}", "weight: 3", "ceiling: 2").Replace(shop))
		require.Equal(t, []string{
			`change stream SCOPE/in retention "max-length=10 settled">"max-age=86400000"`, `change queue QUEUE ceiling "5">"" rate "">"10/1m"`,
			`change lane vip of QUEUE ceiling "">"2" weight "3">""`, `change schedule tick of QUEUE data "sha256:2bfd14f43d17">"sha256:363379742f80"`,
		}, f.lines(f.plan(changed).Changes))
		f.apply(changed)

		refused := f.plan(f.document(strings.NewReplacer("brand: ORD", "brand: XXX", "keyed: true", "keyed: false", "lease: 5s", "lease: 6s").Replace(shop)))
		require.Equal(t, []string{
			`refuse stream SCOPE/in brand "ORD">"XXX" retention "max-age=86400000">"max-length=10 settled"`, `refuse stream SCOPE/out kind "keyed">""`, `refuse group mailer of SCOPE/in lease "5s">"6s"`,
		}, f.lines(refused.Changes)[:3])
		require.ErrorIs(t, refused.Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}), topology.ErrRefused)
		require.Empty(t, f.plan(changed).Changes, "nothing was changed")

		less := f.document("topology: NAME\nscopes: {SCOPE: {streams: {out: {keyed: true}}}}\n")
		gone := []string{`destroy schedule tick of QUEUE`, `destroy lane vip of QUEUE`, `destroy queue QUEUE`, `destroy cursor pass of SCOPE/in`, `destroy group mailer of SCOPE/in`, `destroy stream SCOPE/in`}
		require.Equal(t, gone, f.lines(f.plan(less).Changes))
		require.ErrorIs(t, f.plan(less).Apply(f.ctx, f.client, topology.ApplyOptions{}), topology.ErrDestroys)
		require.Equal(t, gone, f.lines(f.plan(less).Changes))
		f.apply(less)
		f.apply(doc) // what was removed is made again
		f.destroyed()
	})
}

// TestProjections: a projection is made when it runs, another version beside it, and all of them go with it, or with the stream.
func TestProjections(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	text := "topology: NAME\nscopes: {SCOPE: {streams: {in: {external: true}}}}\nprojections: {last: {from: SCOPE/in, version: 1}}\n"
	one, two := f.document(text), f.document(strings.Replace(text, "version: 1", "version: 2", 1))
	require.Equal(t, []string{"create stream SCOPE/in", "create projection last of SCOPE/in"}, f.lines(f.plan(one).Changes))
	f.apply(one)
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/in"})
	require.NoError(t, err)
	_, err = w.Append(f.ctx, codec.Message{Key: "k", Data: []byte("7")})
	require.NoError(t, err)
	run := func(d *topology.Document, cursor string) {
		r, err := topology.NewRun(f.client, d, topology.RunOptions{})
		require.NoError(t, err)
		f.runs(r, func() bool { return f.handled("in", cursor) })
	}
	run(one, "last.1")
	require.Equal(t, []string{`change projection last of SCOPE/in version "1">"2"`}, f.lines(f.plan(two).Changes))
	f.apply(two)
	run(two, "last.2")
	live, err := f.client.LiveProjections(f.ctx, f.own)
	require.NoError(t, err)
	require.Equal(t, 1, live["last"].Version, "readers are switched by whoever has looked at it")

	none := f.document(text[:strings.Index(text, "projections:")])
	require.Equal(t, []string{"destroy projection last of SCOPE/in"}, f.lines(f.plan(none).Changes))
	f.apply(none)
	cursors, err := stream.Cursors(f.ctx, f.client, f.own+"/in")
	require.NoError(t, err)
	require.Empty(t, cursors)
	f.apply(one)
	run(one, "last.1")
	f.destroyed()
	live, err = f.client.LiveProjections(f.ctx, f.own)
	require.NoError(t, err)
	require.Empty(t, live)
}

// TestOwnership: what another has declared, or made by hand, is not destroyed, and not declared twice.
func TestOwnership(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		doc := f.document("topology: NAME\nscopes: {SCOPE: {streams: {in: {external: true}}}}\n")
		w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/in"})
		require.NoError(t, err)
		_, err = w.Append(f.ctx, codec.Message{})
		require.NoError(t, err)
		require.Equal(t, []string{`adopt stream SCOPE/in`}, f.lines(f.plan(doc).Changes))
		f.apply(doc)

		other := *doc
		other.Name = f.own + "2"
		require.Equal(t, []string{`refuse stream SCOPE/in`}, f.lines(f.plan(&other).Changes))

		g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.own + "/in", Name: "theirs", Start: stream.Head()})
		require.NoError(t, err)
		require.NoError(t, g.Create(f.ctx))
		p, err := topology.Destruction(f.ctx, f.client, f.own)
		require.NoError(t, err)
		require.Equal(t, []string{`refuse stream SCOPE/in`}, f.lines(p.Changes))
		require.ErrorIs(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}), topology.ErrRefused)
		require.NoError(t, g.Delete(f.ctx))

		_, err = topology.Destruction(f.ctx, f.client, f.own, "stream "+f.own+"/out")
		require.ErrorContains(t, err, "has not declared")
		p, err = topology.Destruction(f.ctx, f.client, f.own, "stream "+f.own+"/in")
		require.NoError(t, err)
		require.Equal(t, "1 entries", p.Changes[0].Why)
		f.destroyed()
	})
}

// TestOldPlan: what has come about since a plan was made is not destroyed.
func TestOldPlan(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.apply(f.document("topology: NAME\nscopes: {SCOPE: {streams: {in: {external: true}}}}\nqueues: {QUEUE: {ceiling: 2}}\n"))
	none := f.document("topology: NAME\n")
	p := f.plan(none)
	require.Equal(t, []string{"destroy queue QUEUE", "destroy stream SCOPE/in"}, f.lines(p.Changes))
	jobs, err := queue.NewClient(f.client, queue.Config{Queue: f.queue()})
	require.NoError(t, err)
	defer func() { require.NoError(t, jobs.Close(f.ctx)) }()
	id, err := jobs.Enqueue(f.ctx, queue.Job{Message: codec.Message{Type: "x"}})
	require.NoError(t, err)
	var partly *topology.PartlyError
	require.ErrorAs(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}), &partly)
	require.ErrorContains(t, partly, "queue "+f.queue()+", since the plan was made: it has 1 jobs")
	counts, err := jobs.Counts(f.ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Ready)
	require.NoError(t, jobs.Remove(f.ctx, id))

	p, err = topology.Destruction(f.ctx, f.client, f.own)
	require.NoError(t, err)
	g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.own + "/in", Name: "theirs", Start: stream.Head()})
	require.NoError(t, err)
	require.NoError(t, g.Create(f.ctx))
	require.ErrorContains(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}), "theirs of "+f.own+"/in would go with it")
	require.NoError(t, g.Delete(f.ctx))
	f.apply(none)
}

// TestDeclaredMeanwhile: what another topology has declared since the plan was made is left to it.
func TestDeclaredMeanwhile(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	doc := f.document("topology: NAME\nscopes: {SCOPE: {streams: {in: {external: true}}}}\n")
	other := *doc
	other.Name = f.own + "2"
	p := f.plan(doc)
	require.NoError(t, f.plan(&other).Apply(f.ctx, f.client, topology.ApplyOptions{}))
	require.ErrorContains(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{}), other.Name+"\" has declared it meanwhile")
	require.Empty(t, f.plan(&other).Changes)
}

// TestDrained: what waits to be tried again is waited for.
func TestDrained(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	doc := f.document("topology: NAME\nscopes: {SCOPE: {streams: {in: {external: true}, out: {}}}}\nstages: {later: {from: SCOPE/in, to: SCOPE/out, backoff: 700ms, func: later}}\n")
	f.apply(doc)
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/in"})
	require.NoError(t, err)
	_, err = w.Append(f.ctx, codec.Message{Key: "k"})
	require.NoError(t, err)
	r, err := topology.NewRun(f.client, doc, topology.RunOptions{Options: stage.Options{Funcs: map[string]stage.Func{"later": func(_ context.Context, d *consumer.Delivery) error {
		if d.Attempt == 1 {
			return errors.New("not yet")
		}
		d.Emit(tier.AppendTo(f.own+"/out", d.Message))
		return nil
	}}}})
	require.NoError(t, err)
	f.runs(r, func() bool { return r.Drained(f.ctx) == nil })
	require.EqualValues(t, 1, f.length(f.own+"/out"))
	f.destroyed()
}

// TestStates: a stage that reads another stream keeps what it has begun there when the cursor that it had goes; and a scope has one
// state of a name, whoever declares it.
func TestStates(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	text := "topology: NAME\nscopes: {SCOPE: {streams: {a: {external: true}, b: {external: true}, o: {}}}}\nstages: {h: {from: SCOPE/a, to: SCOPE/o, window: {tumbling: 1h, time: data, values: {n: count}}}}\n"
	one, two := f.document(text), f.document(strings.Replace(text, "from: SCOPE/a", "from: SCOPE/b", 1))
	f.apply(one)
	run := func(d *topology.Document, from string) {
		w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/" + from})
		require.NoError(t, err)
		_, err = w.Append(f.ctx, codec.Message{Key: from, Data: []byte("1")})
		require.NoError(t, err)
		r, err := topology.NewRun(f.client, d, topology.RunOptions{})
		require.NoError(t, err)
		f.runs(r, func() bool { return f.handled(from, "h") })
	}
	run(one, "a")
	run(two, "b") // before it is applied
	require.Equal(t, []string{"create cursor h of SCOPE/b", "destroy cursor h of SCOPE/a"}, f.lines(f.plan(two).Changes))
	f.apply(two)
	run(two, "b")
	state, err := f.client.StateAll(f.ctx, f.own, "stage.h")
	require.NoError(t, err)
	require.Len(t, state, 2)
	require.Contains(t, state["0 b"], `"n":2`)

	other := f.document("topology: NAME2\nscopes: {SCOPE: {streams: {x: {external: true}, y: {}}}}\nstages: {h: {from: SCOPE/x, to: SCOPE/y, dedupe: {key: key, within: 1h}}}\n")
	p := f.plan(other)
	require.Equal(t, []string{"refuse cursor h of SCOPE/x", "create stream SCOPE/x", "create stream SCOPE/y"}, f.lines(p.Changes))
	require.Contains(t, p.Changes[0].Why, "keeps its state under that name")
	f.destroyed()
	state, err = f.client.StateAll(f.ctx, f.own, "stage.h")
	require.NoError(t, err)
	require.Empty(t, state)
}

// TestKeyed: a stream with keys takes what stages hand on to it, watermarks too.
func TestKeyed(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	doc := f.document("topology: NAME\nscopes: {SCOPE: {streams: {in: {external: true}, hours: {keyed: true}, seen: {keyed: true}}}}\n" +
		"stages:\n  hours: {from: SCOPE/in, to: SCOPE/hours, window: {tumbling: 1h, key: key, values: {n: count}}}\n  seen: {from: SCOPE/in, to: SCOPE/seen, func: same}\n")
	f.apply(doc)
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/in"})
	require.NoError(t, err)
	_, err = w.AppendBatch(f.ctx, []codec.Message{{Key: "k"}, {Type: stage.WatermarkType}})
	require.NoError(t, err)
	r, err := topology.NewRun(f.client, doc, topology.RunOptions{Options: stage.Options{Funcs: map[string]stage.Func{"same": func(_ context.Context, d *consumer.Delivery) error {
		d.Emit(tier.AppendTo(f.own+"/seen", d.Message))
		return nil
	}}}})
	require.NoError(t, err)
	f.runs(r, func() bool { return f.handled("in", "hours") && f.handled("in", "seen") })
	require.EqualValues(t, 2, f.length(f.own+"/hours"))
	require.EqualValues(t, 2, f.length(f.own+"/seen"))
	for _, cursor := range []string{"hours", "seen"} {
		for l, err := range stream.DeadLetters(f.ctx, f.client, f.own+"/in", cursor) {
			require.NoError(t, err)
			require.Fail(t, "a dead letter", l.Reason)
		}
	}
	f.destroyed()
}

// TestDrift: what was changed by hand is told as it was and as it is, and applied away.
func TestDrift(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		doc := f.document(shop)
		f.apply(doc)
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.own+"/in", stream.Retention{MaxAge: time.Hour}))
		g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.own + "/in", Name: "mailer", Start: stream.Head()})
		require.NoError(t, err)
		require.NoError(t, g.Delete(f.ctx))
		jobs, err := queue.NewClient(f.client, queue.Config{Queue: f.queue()})
		require.NoError(t, err)
		require.NoError(t, jobs.SetCeiling(f.ctx, 9))
		drifted, err := topology.Drift(f.ctx, f.client, f.own)
		require.NoError(t, err)
		require.Equal(t, []string{
			`change stream SCOPE/in retention "max-length=10 settled">"max-age=3600000"`, `destroy group mailer of SCOPE/in`, `change queue QUEUE ceiling "5">"9"`,
		}, f.lines(drifted))
		f.apply(doc)
		f.destroyed()
	})
}

// TestMigration: another number of partitions waits until all is handled, when it is allowed to.
func TestMigration(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		text := "topology: NAME\nscopes: {SCOPE: {partitions: 2, streams: {in: {external: true, retention: {max_length: 5}, groups: {g: {}}}}}}\n"
		doc := f.document(text)
		f.apply(doc)
		for k := range 2 {
			policy, err := stream.RetentionOf(f.ctx, f.client, fmt.Sprintf("%s.%d/in", f.own, k))
			require.NoError(t, err)
			require.Equal(t, int64(5), policy.MaxLength)
		}
		more := f.document(strings.Replace(text, "partitions: 2", "partitions: 3", 1))
		p := f.plan(more)
		require.Equal(t, []string{`migrate partitions SCOPE count "2">"3"`}, f.lines(p.Changes))
		require.ErrorIs(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{}), topology.ErrMigrates)
		require.NoError(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{Migrate: true}))
		f.apply(more) // the streams of the new partition
		none := f.plan(f.document(strings.Replace(text, "partitions: 2, ", "", 1)))
		require.Equal(t, []string{`refuse stream SCOPE/in`, `refuse group g of SCOPE/in`}, f.lines(none.Changes)[:2])
		f.destroyed()
	})
}

// TestPartly: an apply that ends half way says where it stands, and goes on.
func TestPartly(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		doc := f.document(shop)
		p := f.plan(doc)
		ctx, cancel := context.WithCancel(f.ctx)
		err := p.Apply(ctx, f.client, topology.ApplyOptions{Before: func(c *topology.Change, _ string) {
			if c.Kind == "group" {
				cancel()
			}
		}})
		var partly *topology.PartlyError
		require.ErrorAs(t, err, &partly)
		require.Len(t, partly.Done, 2)
		require.Equal(t, "group", partly.Failed.Kind)
		require.Len(t, partly.Left, len(p.Changes)-3)
		require.Len(t, f.plan(doc).Changes, len(p.Changes)-2)
		f.apply(doc)
		f.destroyed()
	})
}

// anyDocument draws a document of the test's names.
func (f *fixture) anyDocument(t *rapid.T, label string) *topology.Document {
	some := func(what string) bool { return rapid.Bool().Draw(t, label+" "+what) }
	upTo := func(n int, what string) int { return rapid.IntRange(0, n).Draw(t, label+" "+what) }
	d := &topology.Document{Name: f.own, Scopes: map[string]topology.Scope{}, Queues: map[string]topology.Queue{}, Stages: map[string]stage.Config{}}
	streams := map[string]topology.Stream{}
	for _, own := range []string{"a", "b", "c"} {
		if !some(own) {
			continue
		}
		s := topology.Stream{External: true, Keyed: own == "c"} // for good
		if some(own + " policy") {
			s.Retention = &topology.Retention{MaxLength: int64(1 + upTo(9, "length")), Settled: some("settled")}
		}
		if n := upTo(2, own+" groups"); n > 0 {
			s.Groups = map[string]topology.Group{fmt.Sprint("g", n): {Lease: stage.Duration(time.Second)}}
		}
		streams[own] = s
	}
	d.Scopes[f.own] = topology.Scope{Streams: streams}
	for _, own := range slices.Sorted(maps.Keys(streams)) {
		if some(own + " stage") {
			d.Stages["s"+own] = stage.Config{From: f.own + "/" + own, To: f.own + "/" + own, Filter: "true"}
		}
	}
	for _, own := range slices.Sorted(maps.Keys(streams)) {
		if some(own + " projection") {
			d.Projections = map[string]stage.Projection{"p" + own: {From: f.own + "/" + own, Version: 1 + upTo(1, own+" version")}}
		}
	}
	if some("queue") {
		q := topology.Queue{Ceiling: upTo(2, "ceiling"), Events: upTo(1, "events") * 100}
		if some("lane") {
			q.Lanes = map[string]topology.Lane{"l": {Weight: float64(upTo(2, "weight")), Ceiling: upTo(2, "its ceiling")}}
		}
		if some("schedule") {
			q.Schedules = map[string]topology.Schedule{"s": {Every: stage.Duration(time.Hour) * stage.Duration(1+upTo(2, "every")), Type: "t", Data: upTo(2, "data")}}
		}
		d.Queues[f.queue()] = q
	}
	require.NoError(t, d.Check())
	return d
}

// meddle changes something by hand, as an operator may.
func (f *fixture) meddle(t *rapid.T) {
	address := f.own + "/" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "stream")
	var err error
	switch rapid.IntRange(0, 4).Draw(t, "meddle") {
	case 0:
		err = stream.SetRetention(f.ctx, f.client, address, stream.Retention{MaxAge: time.Minute})
	case 1:
		_, err = stream.Remove(f.ctx, f.client, address)
	case 2:
		var g *stream.Group
		if g, err = stream.NewGroup(f.client, stream.GroupConfig{Address: address, Name: "g1", Start: stream.Head()}); err == nil {
			err = g.Delete(f.ctx)
		}
	default:
		var jobs *queue.Client
		if jobs, err = queue.NewClient(f.client, queue.Config{Queue: f.queue()}); err == nil {
			_, err = jobs.SetLane(f.ctx, "l", 7, 7)
			_ = queue.NewSchedules(jobs).Remove(f.ctx, "s")
		}
	}
	_ = err // there may be no such thing
}

// TestAnyDocument: whatever was applied, and changed by hand since, an apply reaches what is declared, with an empty plan.
func TestAnyDocument(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	f := setUp(t, s)
	rapid.Check(t, func(t *rapid.T) {
		for round := range 3 {
			d := f.anyDocument(t, fmt.Sprint("round ", round))
			p, err := topology.PlanOf(f.ctx, f.client, d)
			require.NoError(t, err)
			require.False(t, p.Has(topology.Refuse), "%v", f.lines(p.Changes))
			require.NoError(t, p.Apply(f.ctx, f.client, topology.ApplyOptions{Destroy: true}))
			p, err = topology.PlanOf(f.ctx, f.client, d)
			require.NoError(t, err)
			require.Empty(t, f.lines(p.Changes), "an applied plan is empty")
			f.requireDeclared(t, d)
			f.meddle(t)
		}
	})
	f.destroyed()
}

// requireDeclared compares the server with a document, without the plan's eyes.
func (f *fixture) requireDeclared(t *rapid.T, d *topology.Document) {
	live := map[string]bool{}
	for info, err := range stream.Streams(f.ctx, f.client, f.own) {
		require.NoError(t, err)
		want, declared := d.Scopes[f.own].Streams[info.Address.Stream]
		require.Equal(t, declared, !info.Removed, info.Address)
		if !declared {
			continue
		}
		live[info.Address.Stream] = true
		require.Equal(t, want.Keyed, info.Keyed)
		policy, err := stream.RetentionOf(f.ctx, f.client, info.Address.String())
		require.NoError(t, err)
		if want.Retention == nil {
			require.Zero(t, policy)
		} else {
			require.Equal(t, stream.Retention{MaxLength: want.Retention.MaxLength, Settled: want.Retention.Settled}, policy)
		}
		groups, err := stream.Groups(f.ctx, f.client, info.Address.String())
		require.NoError(t, err)
		require.Len(t, groups, len(want.Groups))
	}
	require.Len(t, live, len(d.Scopes[f.own].Streams))
	jobs, err := queue.NewClient(f.client, queue.Config{Queue: f.queue()})
	require.NoError(t, err)
	o, err := jobs.Overview(f.ctx)
	require.NoError(t, err)
	require.Equal(t, d.Queues[f.queue()].Ceiling, o.Ceiling)
	require.Len(t, d.Queues[f.queue()].Schedules, int(o.Schedules))
}

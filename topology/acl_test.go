package topology_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

const guarded = `topology: NAME
scopes:
  SCOPE:
    streams:
      in: {external: true, groups: {mailer: {}}, retention: {max_length: 100}}
      big: {keyed: true}
      sums: {}
      late: {}
      secret: {external: true}
projections: {last: {from: SCOPE/in, key: "'all'"}}
queues: {QUEUE: {ceiling: 2, schedules: {tick: {every: 1h, type: tick}}}}
sources: {feed: {to: SCOPE/in, key: "'k'", file: {path: DIR/in.jsonl}}}
sinks: {out: {from: SCOPE/big, file: {path: DIR/out.jsonl}}}
stages:
  strong: {from: SCOPE/in, to: SCOPE/big, filter: "data.n >= 5"}
  sums: {from: SCOPE/in, to: SCOPE/sums, window: {tumbling: 1s, time: data.t, late: SCOPE/late, values: {n: count}}}
`

// role is the client of a user with exactly the rights of a role.
func (f *fixture) role(s *tiertest.Server, d *topology.Document, role, name string) *tier.Client {
	f.Helper()
	for _, r := range d.ACL(s.Kind.Cluster()) {
		if r.Role == role && r.Name == name {
			u := tiertest.NewUser(f, []*tiertest.Server{s}, r.Rules...)
			return tiertest.Dial(f, userURL(u.At(s)))
		}
	}
	f.Fatalf("no role %s %s", role, name)
	return nil
}

type userURL string

func (u userURL) URL() string { return string(u) }

// TestACL: the operator applies, the source's user appends, each stage runs, a group is consumed, with just the rights that the
// document gives them; whatever else they try is refused.
func TestACL(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		dir := t.TempDir()
		lines := `{"n":1,"t":1000}` + "\n" + `{"n":7,"t":1500}` + "\n" + `{"n":9,"t":9000}` + "\n" + `{"n":2,"t":1000}` + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "in.jsonl"), []byte(lines), 0o600))
		doc := f.document(strings.ReplaceAll(guarded, "DIR", dir))
		operator := &fixture{f.TB, f.ctx, f.role(s, doc, "operator", ""), f.own}
		operator.apply(doc)

		client := f.role(s, doc, "source", "feed")
		source, err := stage.NewSource(client, "feed", doc.Sources["feed"], stage.Options{})
		require.NoError(t, err)
		f.runs(source, func() bool { return f.length(f.own+"/in") > 0 })
		f.requireRefused(client, f.own)
		for _, name := range []string{"strong", "sums"} {
			client, cfg := f.role(s, doc, "stage", name), doc.Stages[name]
			r, err := stage.New(client, name, cfg, stage.Options{})
			require.NoError(t, err)
			f.runs(r, func() bool { return f.length(cfg.To) > 0 })
			f.requireRefused(client, f.own)
		}
		client = f.role(s, doc, "projection", "last")
		last, err := stage.NewProjection(client, "last", doc.Projections["last"], stage.Options{})
		require.NoError(t, err)
		f.runs(last, func() bool { return f.handled("in", "last.1") })
		f.requireRefused(client, f.own)
		client = f.role(s, doc, "sink", "out")
		sink, err := stage.NewSink(client, "out", doc.Sinks["out"], stage.Options{})
		require.NoError(t, err)
		f.runs(sink, func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "out.jsonl"))
			return strings.Count(string(text), "\n") == 2
		})
		f.requireRefused(client, f.own)
		require.Equal(t, int64(2), f.length(f.own+"/big"))
		require.Equal(t, int64(1), f.length(f.own+"/late"))

		consumer := f.role(s, doc, "consumer", f.own+".in.mailer")
		g, err := stream.NewGroup(consumer, stream.GroupConfig{Address: f.own + "/in", Name: "mailer", Start: stream.Head()})
		require.NoError(t, err)
		m, err := g.Join(f.ctx, "c")
		require.NoError(t, err)
		got, err := m.Read(f.ctx, 10, time.Millisecond)
		require.NoError(t, err)
		require.NotEmpty(t, got)
		f.requireRefused(consumer, f.own)
		kept := func(state string) map[string]string {
			all, err := f.client.StateAll(f.ctx, f.own, state)
			require.NoError(t, err)
			return all
		}
		require.NotEmpty(t, kept("stage.sums"))
		require.NotEmpty(t, kept("sink.out"))
		require.JSONEq(t, `{"n":2,"t":1000}`, kept("last.1")["all"])
		operator.destroyed()
		require.Empty(t, kept("stage.sums"), "the state of a stage goes with it")
		require.Empty(t, kept("sink.out"))
		require.Empty(t, kept("last.1"))
		live, err := f.client.LiveProjections(f.ctx, f.own)
		require.NoError(t, err)
		require.Empty(t, live)
	})
}

// TestUsers: no two roles have one user, which the second would take everything from.
func TestUsers(t *testing.T) {
	doc, err := files{"doc.yaml": `topology: t
scopes:
  a: {streams: {in: {external: true, groups: {g: {}}}, in.x: {external: true, groups: {g: {}}}}}
  b: {streams: {in: {external: true, groups: {g: {}, x.g: {}}}}}
  a.in: {streams: {x: {external: true, groups: {g: {}}}}}
`}.load(nil)
	require.NoError(t, err)
	users := map[string]bool{}
	for _, r := range doc.ACL(false) {
		require.False(t, users[r.User("t")], r.User("t"))
		users[r.User("t")] = true
	}
	require.Contains(t, users, "t.consumer.b.in.g")
	require.Len(t, users, 6)
}

// runs lets a stage or a sink run until it has done what it is to do.
func (f *fixture) runs(r stage.Runner, done func() bool) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	tiertest.Eventually(f, time.Minute, func() (bool, string) {
		select {
		case err := <-ended:
			ended <- err
			require.NoError(f, err, "it has all rights that it needs")
		default:
		}
		return done(), "it has done nothing"
	})
	cancel()
	require.NoError(f, <-ended)
}

func (f *fixture) length(address string) (n int64) {
	for info, err := range stream.Streams(f.ctx, f.client, f.own) {
		require.NoError(f, err)
		if info.Address.String() == address {
			n = info.Length
		}
	}
	return n
}

// requireRefused tries what is none of a role's business.
func (f *fixture) requireRefused(client *tier.Client, scope string) {
	f.Helper()
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: scope + "/secret"})
	require.NoError(f, err)
	_, err = w.Append(f.ctx, codec.Message{})
	require.ErrorIs(f, err, tier.ErrPermission)
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: scope + "/secret"})
	require.NoError(f, err)
	_, err = r.Last(f.ctx, 1)
	require.ErrorIs(f, err, tier.ErrPermission)
	_, err = stream.Remove(f.ctx, client, scope+"/in")
	require.ErrorIs(f, err, tier.ErrPermission)
	_, err = client.Declarations(f.ctx)
	require.ErrorIs(f, err, tier.ErrPermission)
}

// everyVerb has a stage of each verb: what comes of {"n":1,"t":0}, {"n":1,"t":5000} is in the stream of its name.
var everyVerb = map[string]string{
	"filter":   `filter: "true"`,
	"map":      `map: {data: data.n}`,
	"key_by":   `key_by: data.n`,
	"route":    `route: [{when: "data.n > 7", to: SCOPE/more}, {to: SCOPE/route}]`,
	"dedupe":   `dedupe: {key: data.n, within: 1h}`,
	"throttle": `throttle: {count: 1, per: 1h, key: data.n, over: SCOPE/more}`,
	"batch":    `batch: {size: 2}`,
	"window":   `window: {tumbling: 1s, time: data.t, late: SCOPE/more, values: {n: count}}`,
	"join":     `join: {state: seen.1}`,
	"decide":   `decide: {events: [{type: "'seen'"}], state: "(state ?? 0) + 1"}`,
	"exec":     `exec: {command: [sh, -c, 'while read -r l; do i=$${l#*:\"}; echo "{\"id\":\"$${i%%\"*}\",\"out\":[{\"data\":1}]}"; done']}`,
	"webhook":  `webhook: {url: "HOOK"}`,
	"func":     `func: nothing`,
	"job":      `job: {queue: QUEUE}`,
}

// TestACLOfVerbs: a stage of each verb, and each kind of sink and source, runs with exactly the rights that the document gives it.
func TestACLOfVerbs(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	f := setUp(t, s)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("1")) }))
	t.Cleanup(hook.Close)
	text := "topology: NAME\nscopes:\n  SCOPE:\n    streams: {in: {external: true}, more: {}, secret: {external: true}"
	stages := "stages:\n"
	for _, verb := range stage.Verbs {
		declared, ok := everyVerb[verb]
		if !ok {
			require.Fail(t, "a verb without a test of its rights", verb)
		}
		to := "to: SCOPE/" + verb + ", "
		if verb == "route" || verb == "job" {
			to = ""
		}
		switch verb {
		case "job":
		case "decide":
			text += ", decide: {keyed: true}"
		default:
			text += ", " + verb + ": {}"
		}
		stages += "  " + verb + "s: {from: SCOPE/in, " + to + declared + "}\n"
	}
	text += "}\nqueues: {QUEUE: {}}\n" + stages + `sources:
  posted: {to: SCOPE/in, http: {listen: "127.0.0.1:0"}}
  typed: {to: SCOPE/in, stdin: {}}
sinks:
  hooked: {from: SCOPE/in, webhook: {url: "HOOK"}}
  printed: {from: SCOPE/in, stdout: {}}
projections: {sums: {from: SCOPE/in, state: "(state ?? 0) + data.n"}}
`
	doc := f.document(strings.ReplaceAll(text, "HOOK", hook.URL))
	f.apply(doc)
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/in"})
	require.NoError(t, err)
	_, err = w.AppendBatch(f.ctx, []codec.Message{{Key: "k", Data: []byte(`{"n":1,"t":0}`)}, {Key: "k", Data: []byte(`{"n":1,"t":5000}`)}})
	require.NoError(t, err)
	f.seen()
	funcs := map[string]stage.Func{"nothing": func(_ context.Context, d *consumer.Delivery) error {
		d.Emit(tier.AppendTo(tier.Address{Scope: f.own, Stream: "func"}.String(), d.Message))
		return nil
	}}
	t.Run("at once", func(t *testing.T) {
		for _, r := range doc.ACL(false) {
			if !slices.Contains([]string{"stage", "sink", "projection"}, r.Role) {
				continue
			}
			t.Run(r.Name, func(t *testing.T) {
				t.Parallel()
				f := &fixture{t, f.ctx, f.client, f.own}
				client := f.role(s, doc, r.Role, r.Name)
				runner, err := topology.NewRun(client, doc, topology.RunOptions{Only: []string{r.Name}, Options: stage.Options{Funcs: funcs}})
				require.NoError(t, err)
				cursor := r.Name
				if r.Role == "projection" {
					cursor += ".1"
				}
				f.runs(runner, func() bool { return f.handled("in", cursor) })
				if verb := strings.TrimSuffix(r.Name, "s"); r.Role == "stage" && verb != "job" {
					require.Positive(t, f.length(f.own+"/"+verb))
				}
				f.requireRefused(client, f.own)
			})
		}
	})
	jobs, err := queue.NewClient(f.client, queue.Config{Queue: f.queue()})
	require.NoError(t, err)
	counts, err := jobs.Counts(f.ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, counts.Ready)
	posting := f.role(s, doc, "source", "posted")
	r, err := stage.NewSource(posting, "posted", doc.Sources["posted"], stage.Options{})
	require.NoError(t, err)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(f.ctx)
	go func() { ended <- r.Run(ctx) }()
	<-r.Ready()
	answer, err := http.Post("http://"+r.(interface{ Addr() net.Addr }).Addr().String(), "application/json", strings.NewReader("1")) //nolint:noctx // as clients do
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, int64(3), f.length(f.own+"/in"))
	require.Equal(t, doc.ACL(false)[0].Rules, doc.ACL(false)[1].Rules, "standard input appends as the endpoint does")
}

// seen makes the state that is joined.
func (f *fixture) seen() {
	f.Helper()
	table, err := projection.NewTable(f.client, projection.TableConfig[int]{
		Config: projection.Config{Address: f.own + "/in", Name: "seen"},
		Fold:   func(n int, _ *consumer.Delivery) (int, error) { return n + 1, nil },
	})
	require.NoError(f, err)
	f.runs(table, func() bool { return f.handled("in", "seen.1") })
}

// handled tells whether a cursor is at the end of its stream.
func (f *fixture) handled(name, cursor string) bool {
	f.Helper()
	all, err := stream.Cursors(f.ctx, f.client, f.own+"/"+name)
	require.NoError(f, err)
	i := slices.IndexFunc(all, func(c stream.CursorInfo) bool { return c.Name == cursor })
	return i >= 0 && all[i].Lag == 0 && all[i].Parked == 0
}

package topology_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

// files are what a document is read from, and variables its environment.
type files map[string]string

func (f files) load(variables map[string]string) (*topology.Document, error) {
	return topology.Load("doc.yaml", f.options(variables))
}

func (f files) options(variables map[string]string) topology.LoadOptions {
	return topology.LoadOptions{
		Lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok },
		ReadFile: func(name string) ([]byte, error) {
			text, ok := f[name]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(text), nil
		},
	}
}

const quakes = `topology: quakes
scopes:
  quakes:
    streams:
      raw:
        brand: QKE
        retention: {max_age: 30d, max_bytes: 1GiB, settled: true, archive: "file:///var/archive"}
        groups: {alerts: {start: new, lease: 5s}}
      big:
      hourly: {keyed: true}
      late: {}
queues:
  mail:
    ceiling: 50
    rate: 100/1m
    lanes: {vip: {weight: 3, rate: 10/1s}}
    schedules:
      nightly: {cron: "0 3 * * *", zone: Europe/Berlin, type: report, data: {to: [ann, bob], n: 1}}
sources:
  feed: {to: quakes/raw, file: {path: quakes.csv}, key: data.net}
stages:
  strong: {from: quakes/raw, to: quakes/big, filter: "data.mag >= 5"}
  sums:
    from: quakes/raw
    to: quakes/hourly
    window: {tumbling: 1h, time: data.time, key: data.net, late: quakes/late, values: {n: count, top: {max: data.mag}}}
  shout: {from: quakes/big, job: {queue: mail}}
sinks:
  out: {from: quakes/big, file: {path: out.jsonl}}
`

// TestLoad: what is written is what is read.
func TestLoad(t *testing.T) {
	doc, err := files{"doc.yaml": quakes}.load(nil)
	require.NoError(t, err)
	raw := doc.Scopes["quakes"].Streams["raw"]
	require.Equal(t, "QKE", raw.Brand)
	require.Equal(t, stage.Size(1<<30), raw.Retention.MaxBytes)
	require.Equal(t, 30*24*time.Hour, time.Duration(raw.Retention.MaxAge))
	require.Equal(t, "new", raw.Groups["alerts"].Start)
	require.Len(t, doc.Scopes["quakes"].Streams, 4)
	require.Equal(t, 100, doc.Queues["mail"].Rate.Jobs)
	require.Equal(t, map[string]any{"to": []any{"ann", "bob"}, "n": 1}, doc.Queues["mail"].Schedules["nightly"].Data)
	require.Equal(t, "filter", new(doc.Stages["strong"]).Verb())
	require.True(t, doc.Stages["sums"].Window.Values["n"].Count)
	require.NoError(t, doc.Check(), "as one that is made in Go")

	doc, err = files{"doc.yaml": "topology: t\nscopes: {s: {streams: {a: {external: true}}}}\nstages: {h: {from: s/a, webhook: {url: 'https://example.org', max_answer: 4KiB}}}\n"}.load(nil)
	require.NoError(t, err)
	require.Equal(t, stage.Size(4096), doc.Stages["h"].Webhook.MaxAnswer)
}

// TestInclude: files are read as one, from the directory of who includes them; what is declared twice is named with both places.
func TestInclude(t *testing.T) {
	f := files{
		"doc.yaml":           "topology: shop\ninclude: [parts/streams.yaml, parts/stages.yaml]\nscopes: {shop: {streams: {out: {}}}}\n",
		"parts/streams.yaml": "include: [more.yaml]\nscopes: {shop: {streams: {in: {external: true}}}}\n",
		"parts/more.yaml":    "scopes: {shop: {streams: {third: {external: true}}}}\n",
		"parts/stages.yaml":  "stages: {pass: {from: shop/in, to: shop/out, filter: 'true'}}\n",
	}
	doc, err := f.load(nil)
	require.NoError(t, err)
	require.Len(t, doc.Scopes["shop"].Streams, 3)
	require.Equal(t, "shop/out", doc.Stages["pass"].To)
	require.Empty(t, doc.Include)

	f["parts/more.yaml"] = "include: [../doc.yaml, none.yaml]\nscopes:\n  shop: {streams: {in: {external: false}}}\n"
	_, err = f.load(nil)
	require.EqualError(t, err, `parts/more.yaml:1:11: include: "../doc.yaml" includes what includes it; leave one of them out
parts/more.yaml:1:24: include: "none.yaml": file does not exist; write a path from the directory of this file
parts/more.yaml:3:35: scopes.shop.streams.in.external: it is declared already, at parts/streams.yaml:2:42; leave one of them out`)
}

// TestIncludeOfEnvironment: where a file is may be nobody's business.
func TestIncludeOfEnvironment(t *testing.T) {
	_, err := files{"doc.yaml": "topology: t\ninclude: ['${WHERE}/x.yaml']\n"}.load(map[string]string{"WHERE": "s3cr3t"})
	require.EqualError(t, err, `doc.yaml:2:11: include: "${WHERE}/x.yaml": file does not exist; write a path from the directory of this file`)
}

// TestExecPlace: what is wrong with a child process is told where it is written.
func TestExecPlace(t *testing.T) {
	_, err := files{"doc.yaml": "topology: t\nscopes: {s: {streams: {in: {external: true}}}}\nstages:\n  a:\n    from: s/in\n    exec:\n      command: []\n      max_line: 7\n"}.load(nil)
	require.EqualError(t, err, `doc.yaml:7:16: stages.a.exec.command: missing: the program and its arguments, as [python3, score.py]
doc.yaml:8:17: stages.a.exec.max_line: 7: want 1KiB to 16MiB`)
}

// TestEnvironment: variables stand in values; their own values in no error.
func TestEnvironment(t *testing.T) {
	text := `topology: ${NAME}
scopes: {shop: {streams: {in: {brand: "${BRAND:-ORD}", external: true, retention: {max_length: "${KEEP}"}}}}}
queues: {mail: {schedules: {s: {every: 1h, type: "$${x} ${NAME}", data: {n: "${KEEP}"}}}}}
`
	doc, err := files{"doc.yaml": text}.load(map[string]string{"NAME": "shop", "KEEP": "10", "BRAND": ""})
	require.NoError(t, err)
	require.Equal(t, "shop", doc.Name)
	require.Equal(t, "ORD", doc.Scopes["shop"].Streams["in"].Brand)
	require.Equal(t, int64(10), doc.Scopes["shop"].Streams["in"].Retention.MaxLength)
	require.Equal(t, "${x} shop", doc.Queues["mail"].Schedules["s"].Type)
	require.Equal(t, map[string]any{"n": "10"}, doc.Queues["mail"].Schedules["s"].Data, "a value of the environment is a text, whatever it looks like")

	_, err = files{"doc.yaml": text}.load(map[string]string{"NAME": "s3cr3t!", "KEEP": "s3cr3t"})
	require.ErrorContains(t, err, `doc.yaml:2:96: scopes.shop.streams.in.retention.max_length: it is "${KEEP}"; write a whole number`)
	require.NotContains(t, err.Error(), "s3cr3t")

	long := strings.Repeat("s3cr3t ", 30)
	for _, value := range []string{"a b", long, "\"\n\x00quoted\""} {
		_, err = files{"doc.yaml": text}.load(map[string]string{"NAME": value, "KEEP": value, "BRAND": value})
		require.Error(t, err)
		require.NotContains(t, err.Error(), value)
		require.NotContains(t, err.Error(), value[1:3]+value[3:min(len(value), 9)])
	}

	_, err = files{"doc.yaml": "topology: ${NAME}${\n"}.load(nil)
	require.ErrorContains(t, err, "doc.yaml:1:11: ")
	_, err = files{"doc.yaml": "topology: ${NAME}\n"}.load(nil)
	require.ErrorContains(t, err, "doc.yaml:1:11: the variable NAME is not set; set it, or give a default: ${NAME:-...}")
}

// TestProblems: each, with its place and what to write.
func TestProblems(t *testing.T) {
	streams := "topology: t\nscopes: {s: {streams: {in: {external: true}, out: {}}}}\n"
	tests := []struct {
		name, text string
		want       []string // the whole error
	}{
		{"nothing", "", []string{"1:1: the file is empty; write what the topology is called, as in topology: shop"}},
		{"no name", "scopes: {}\n", []string{"1:1: topology: the topology has no name; write what it is called, as in topology: shop"}},
		{"no YAML", "topology: [\n", []string{"1:1: it is not YAML"}},
		{"two documents", "topology: t\n---\ntopology: t\n", []string{"2:1: a second document in one file; write one in each file, and include: it"}},
		{"a list", "- topology\n", []string{"1:1: there is a list; write name: value below it; names are topology, include, scopes, queues, sources, stages, projections, sinks"}},
		{"a field", "topology: t\nscopez: {}\n", []string{"2:1: scopez: there is no such field; did you mean scopes?"}},
		{"a field, far from all", "topology: t\nxyz: {}\n", []string{"2:1: xyz: there is no such field; leave it out; there is include, projections, queues, scopes, sinks, sources, stages, topology"}},
		{"twice", "topology: t\ntopology: u\n", []string{"2:1: topology: it is declared twice; leave one of them out"}},
		{"a wrong type", "topology: t\nscopes: {s: {partitions: many, streams: {in: {keyed: yes, retention: {max_bytes: 1XB}}}}}\n", []string{
			`2:26: scopes.s.partitions: it is "many"; write a whole number`,
			`2:54: scopes.s.streams.in.keyed: it is "yes"; write true or false`,
			`2:82: scopes.s.streams.in.retention.max_bytes: it is "1XB"; want a number of bytes, as in 4096, 64KiB, 1GiB or 500MB`,
		}},
		{"no value", "topology: t\nscopes: {s: {partitions: }}\n", []string{"2:26: scopes.s.partitions: there is no value; write a value, or leave the name out"}},
		{"names", "topology: a b\nscopes: {emq: {streams: {'x y': {}}}}\n", []string{
			`1:11: topology: the name of a topology, "a b": ' ' is not one of A-Z a-z 0-9 . _ -`,
			`2:15: scopes.emq: the name of a scope, "emq": this name is reserved for the deployment's own keys`,
			`2:33: scopes.emq.streams.x y: the name of a stream, "x y": ' ' is not one of A-Z a-z 0-9 . _ -`,
		}},
		{"brands", "topology: t\nscopes:\n  s:\n    streams:\n      a: {brand: ORD}\n      b: {brand: ORD}\n      c: {brand: ord}\n", []string{
			"6:18: scopes.s.streams.b.brand: stream a of this scope has the brand ORD; choose another, or leave it out",
			`7:18: scopes.s.streams.c.brand: it is "ord"; want three capital letters, A to Z`,
		}},
		{"policies", "topology: t\nscopes: {s: {streams: {a: {retention: {max_length: 5, hard_cap: 4}}, b: {retention: {archive: 's3://u:p@b/x'}}}}}\n", []string{
			"2:39: scopes.s.streams.a.retention: not a policy of retention: the hard cap is below the max length: it would take what is to stay",
			"2:85: scopes.s.streams.b.retention: not a policy of retention: the archive's address holds credentials: give them to the process that archives",
		}},
		{"times", "topology: t\nqueues:\n  q:\n    schedules:\n      a: {cron: \"0 25 * * *\", type: x}\n      b: {type: x}\n      c: {every: 1h, zone: UTC}\n", []string{
			"5:20: queues.q.schedules.a.cron: ",
			"6:10: queues.q.schedules.b: nothing says when it is due, or two things do; write cron: or every:, and not both",
			"7:10: queues.q.schedules.c: the job has no type; write type: and what its worker goes by",
			"7:28: queues.q.schedules.c.zone: zone is that of cron; leave it out",
		}},
		{"a stream that is not there", streams + "stages: {a: {from: s/inn, to: t/x, filter: 'true'}, b: {from: s/in, to: s/out, filter: 'true'}}\n", []string{
			"3:20: stages.a.from: there is no stream s/inn; did you mean s/in?",
			"3:31: stages.a.to: t/x is not in scope s: what a stage appends is one commit with its checkpoint, inside a scope",
			"3:31: stages.a.to: there is no stream t/x; declare it: scopes: {t: {streams: {x: {}}}}; there is s/in, s/out",
		}},
		{"a queue that is not there", streams + "queues: {mail: {}}\nstages: {a: {from: s/in, job: {queue: mial}}, b: {from: s/in, to: s/out, filter: 'true'}}\n", []string{
			"4:39: stages.a.job.queue: there is no queue mial; did you mean mail?",
		}},
		{"nothing writes", "topology: t\nscopes: {s: {streams: {a: {}, b: {}, c: {}}}}\nstages: {x: {from: s/a, to: s/b, filter: 'true'}}\nsources: {f: {to: s/c, file: {path: f.csv}}}\n", []string{
			"2:27: scopes.s.streams.a: nothing writes to stream s/a; give a source or a stage to: s/a, or write external: true, if programs outside append to it",
		}},
		{"round and round", streams + "stages:\n  a: {from: s/in, to: s/out, filter: 'true'}\n  b: {from: s/out, to: s/in, map: data}\n  c: {from: s/out, to: s/out, map: data}\n", []string{
			"6:6: stages.c: there",
		}},
		{"for ever", "topology: t\nscopes: {s: {streams: {a: {external: true}, b: {}}}}\nstages:\n  x: {from: s/a, to: s/b, map: data}\n  y: {from: s/b, to: s/a, key_by: key}\n", []string{
			"4:6: stages.x: messages go round for ever: s/a, s/b, x, y; let a stage of it filter or route some away",
		}},
		{"to itself only", "topology: t\nscopes: {s: {streams: {a: {}}}}\nstages:\n  x: {from: s/a, to: s/a, filter: 'true'}\n", []string{
			"2:27: scopes.s.streams.a: nothing comes to stream s/a: only stages write to it that read what they write themselves; let a source or another stage append to it",
		}},
		{"an exclusive stream", "topology: t\nscopes: {s: {streams: {a: {external: true}, b: {exclusive: true, external: true}}}}\nstages:\n  x: {from: s/a, to: s/b, map: data}\nsources: {f: {to: s/b, file: {path: f.csv}}}\n", []string{
			"4:22: stages.x.to: s/b is exclusive: its one writer is a program that mints its ids, and this would be another; leave exclusive out, or append to another stream",
			"5:19: sources.f.to: s/b is exclusive",
		}},
		{"two ends", "topology: t\nscopes: {s: {streams: {a: {}}}}\nsources:\n  f: {to: s/a, file: {path: f.csv, watermark: true}}\n  g: {to: s/a, file: {path: g.csv, watermark: true}}\n", []string{
			"5:47: sources.g.file.watermark: source f ends s/a too, and what this one brings behind that would be late; leave it out of both, and append a message of type emq.watermark when both are through",
		}},
		{"results without a key", "topology: t\nscopes: {s: {streams: {a: {external: true}, b: {keyed: true}, c: {keyed: true}}}}\nstages:\n  x: {from: s/a, to: s/b, window: {tumbling: 1h, values: {n: count}}}\n  y: {from: s/b, to: s/c, batch: {size: 5}}\n", []string{
			"4:35: stages.x.window: s/b is keyed, and a message without a key would make a result without one; write key: and an expression that is a text for each message",
		}},
		{"what is decided", "topology: t\nscopes: {s: {streams: {a: {external: true}, b: {external: true, retention: {max_length: 9}}}}}\nstages:\n  x: {from: s/a, to: s/b, decide: {events: [{type: type}], state: data}}\n  y: {from: s/a, to: s/b, filter: 'true'}\n", []string{
			"4:22: stages.x.to: s/b has a retention, and what a key is comes from all of its events; leave retention out",
			"4:22: stages.x.to: s/b is external, and what is decided would not know of what programs append; leave external out, and let programs append commands",
			"4:22: stages.x.to: s/b is not keyed, and what a key is comes from its events; declare it so: scopes: {s: {streams: {b: {keyed: true}}}}",
			"4:22: stages.x.to: stage y appends to s/b as well",
		}},
		{"a stream with keys", "topology: t\nscopes: {s: {streams: {a: {keyed: true}}}}\nsources: {f: {to: s/a, file: {path: f.csv}}}\n", []string{
			"3:19: sources.f.to: s/a is keyed, which no source appends to; leave keyed out, or append to another stream and let a stage pass it on",
		}},
		{"a state without its version", streams + "projections: {last: {from: s/in, version: 3}}\nstages: {a: {from: s/in, to: s/out, join: {state: last}}}\n", []string{
			"4:51: stages.a.join.state: a projection has a state for each version: there is none called last; write last.3",
		}},
		{"a value of a window", streams + "stages: {a: {from: s/in, to: s/out, window: {tumbling: 1h, values: {n: counts}}}}\n", []string{
			`3:72: stages.a.window.values.n: it is "counts"; want count, or {sum: EXPRESSION}, and so with mean, min, max, distinct`,
		}},
		{"one mistake is one line", streams + "stages:\n  a: {from: s/in, to: s/out, filtr: 'true'}\n  b: {from: s/in, to: s/out, filter: [x]}\n  c: {from: s/in, to: s/out, exec: {command: score.py}}\n  d: {from: s/in, window: {tumbling: 1 hour, values: {n: count}}}\nsinks: {x: {from: s/in, file: x.jsonl}}\n", []string{
			"4:30: stages.a.filtr: there is no such field; did you mean filter?",
			"5:38: stages.b.filter: there is a list; write one value",
			"6:46: stages.c.exec.command: there is a single value; write a list: [one, two], or a line beginning with - for each",
			"7:6: stages.d.to: missing: the stream of the same scope that the results go to",
			`7:38: stages.d.window.tumbling: it is "1 hour"; "1 hour" is no duration`,
			"8:31: sinks.x.file: there is a single value; write name: value below it; names are ",
		}},
		{"one place for two", "topology: t\nscopes: {s: {streams: {a: {}}}}\nsources:\n  f: {to: s/a, stdin: {}}\n  g: {to: s/a, stdin: {}}\n  h: {to: s/a, http: {listen: 'localhost:80'}}\n  i: {to: s/a, http: {listen: 'localhost:80', path: /i}}\nsinks:\n  x: {from: s/a, file: {path: out/x.jsonl}}\n  y: {from: s/a, file: {path: ./out/x.jsonl}}\n", []string{
			"5:23: sources.g.stdin: source f reads it; leave one of them out",
			"7:31: sources.i.http.listen: source h listens there; give one of them another port",
			"10:31: sinks.y.file.path: sink x writes to that file; give one of them another",
		}},
		{"one name for two readers", "topology: t\nscopes: {s: {streams: {a: {external: true, groups: {x: {}}}, b: {}}}}\nstages: {x: {from: s/a, to: s/b, map: data}}\n", []string{
			"3:13: stages.x: scopes.s.streams.a.groups.x reads s/a under that name; give one of them another name",
		}},
		{"partitions", "topology: t\nscopes: {s: {partitions: 2, streams: {a: {external: true}}}, u: {streams: {b: {exclusive: true, external: true}}}}\nsinks: {x: {from: s/a, file: {path: x.jsonl}}}\n", []string{
			"3:19: sinks.x.from: s/a is in partitions, which sources, stages, projections and sinks do not know; put it into a scope without, or read it by a program (consumer.Partitioned)",
		}},
		{"inside an expression", streams + "stages:\n  a: {from: s/in, to: s/out, filter: \"data.mag >= \"}\n  b:\n    from: s/in\n    to: s/out\n    filter: |\n      true and\n      nam == 'x'\n  c: {from: s/in, to: s/out, filter: kee == 'x'}\n", []string{
			"4:50: stages.a.filter: ", "10:7: stages.b.filter: unknown name nam", "11:38: stages.c.filter: unknown name kee",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := files{"doc.yaml": tt.text}.load(nil)
			if tt.name == "round and round" { // there is a way out: what the filter drops
				require.NoError(t, err)
				return
			}
			var problems topology.Problems
			require.ErrorAs(t, err, &problems)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(tt.want), "%v", err)
			for i, want := range tt.want {
				require.True(t, strings.HasPrefix(lines[i], "doc.yaml:"+want), "%s\nwant %s", lines[i], want)
			}
		})
	}
}

// TestHostile: what would take all memory, or never end, is refused (B86).
func TestHostile(t *testing.T) {
	laughs := "topology: t\na0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		next, last := string(rune('1'+i)), string(rune('0'+i))
		laughs += "a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+last+", ", 9), ", ") + "]\n"
	}
	for name, text := range map[string]string{
		"aliases":  laughs + "include: *a9\n",
		"a circle": "topology: t\ninclude: &a [*a]\n",
		"depth":    "topology: t\ninclude: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n",
		"in data":  laughs + "queues: {q: {schedules: {s: {every: 1h, type: x, data: *a9}}}}\n",
	} {
		_, err := files{"doc.yaml": text}.load(nil)
		require.Error(t, err, name)
		require.Less(t, len(err.Error()), 100_000, name)
	}
	many := files{"doc.yaml": "topology: t\ninclude: [a.yaml]\n"}
	for i := range 100 {
		many[strings.Repeat("a", i+1)+".yaml"] = "include: [" + strings.Repeat("a", i+2) + ".yaml]\n"
	}
	_, err := many.load(nil)
	require.ErrorContains(t, err, "more than 64 files")
	_, err = files{}.load(nil)
	require.True(t, errors.Is(err, fs.ErrNotExist))
}

// FuzzLoad: whatever is written, there is a document or an error, of one line for each problem.
func FuzzLoad(f *testing.F) {
	f.Add(quakes)
	f.Add("topology: ${A}\ninclude: [x]\nscopes: &a {s: *a}\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := files{"doc.yaml": text}.load(map[string]string{"A": "s3cr3t"})
		require.Equal(t, doc == nil, err != nil)
		if err != nil && !strings.Contains(text, "s3cr3t") {
			require.NotContains(t, err.Error(), "s3cr3t")
		}
	})
}

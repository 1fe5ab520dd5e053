package topology_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

const tried = `topology: shop
scopes:
  shop:
    streams: {in: {external: true}, large: {}, named: {}, late: {}, hours: {}, asked: {}, posted: {}}
queues: {mail: {}}
stages:
  large: {from: shop/in, to: shop/large, filter: data.total >= 100}
  named: {from: shop/large, to: shop/named, join: {state: names.1, missing: dead, data: "{name: joined.name, total: data.total}"}}
  hours: {from: shop/in, to: shop/hours, window: {tumbling: 1h, late: shop/late, values: {n: count, sum: {sum: data.total}}}}
  mail: {from: shop/large, job: {queue: mail, lane: key, type: "'large'", data: data.total}}
  post: {from: shop/large, to: shop/posted, webhook: {url: "http://127.0.0.1:1/"}}
  ask: {from: shop/large, to: shop/asked, exec: {command: [sed, -u, 's/^{"id":"\([^"]*\)".*/{"id":"\1","out":[{"type":"asked"}]}/']}}
`

const cases = `document: doc.yaml
cases:
  all:
    given:
      shop/in:
        - {key: ann, data: {total: 120}, time: 2026-01-01T10:00:00Z}
        - {key: ann, data: {total: 99.5}}
        - {key: bob, data: {total: 1e2}, headers: {h: x}, time: 2026-01-01T11:00:00Z}
        - {key: eve, data: plain}
        - {type: emq.watermark}
    states: {names.1: {ann: {name: Ann}}}
    answers: {post: {took: true}}
    expect:
      shop/large:
        - {key: ann, data: {total: 120.0}}
        - {key: bob, data: {total: 100}, headers: {h: x}, time: 2026-01-01T11:00:00Z}
        - {type: emq.watermark}
      shop/named: [{data: {name: Ann, total: 120}}, {type: emq.watermark}]
      shop/hours:
        - {key: ann, data: {key: ann, start: "2026-01-01T10:00:00Z", end: "2026-01-01T11:00:00Z", n: 2, sum: 219.5}}
        - {key: bob}
        - {type: emq.watermark}
      shop/asked: [{key: ann, type: asked}, {key: bob, type: asked}, {type: emq.watermark}]
      shop/posted: [{key: ann, data: {took: true}}, {key: bob}, {}]
      shop/late: [{type: emq.watermark}]
    dead:
      large: ["data is string"]
      hours: [cannot fetch total]
      named: [has no field]
    jobs: {mail: [{lane: ann, type: large, data: 120}, {lane: bob, key: bob}]}
    posts: {post: [{total: 120}, {total: 100}]}
`

func try(t *testing.T, document, cases string) []topology.Mismatch {
	f := files{"doc.yaml": document, "cases.yaml": cases}
	c, doc, err := topology.LoadCases("cases.yaml", f.options(nil))
	require.NoError(t, err)
	found, err := doc.Try(t.Context(), c.Cases["all"], stage.Options{})
	require.NoError(t, err)
	return found
}

// TestTry: what comes of a case is compared with all that it expects, and each thing that it expects otherwise is told.
func TestTry(t *testing.T) {
	t.Parallel()
	require.Empty(t, try(t, tried, cases))
	for _, tt := range []struct{ name, old, with, where, lines string }{
		{"another value", "total: 120.0", "total: 121", "stream shop/large", `-{"data":{"total":121},"key":"ann"}
+{"data":{"total":120},"key":"ann"}
 {"data":{"total":100},"headers":{"h":"x"},"key":"bob","time":"2026-01-01T11:00:00Z"}
 {"type":"emq.watermark"}`},
		{"one more", "shop/late: [{type: emq.watermark}]", "shop/late: []", "stream shop/late", `+{"data":"","key":"emq.watermark"}`},
		{"one less", "{key: bob, type: asked}, ", "{key: bob, type: asked}, {key: cid}, ", "stream shop/asked", ` {"key":"ann","type":"asked"}
 {"key":"bob","type":"asked"}
-{"key":"cid"}
 {"type":"emq.watermark"}`},
		{"a dead letter that nobody named", "      named: [has no field]\n", "", "dead letters of named", "+" + `{"reason":"stage: the state names.1 has no field \"bob\""}`},
		{"another reason", "data is string", "data is int", "dead letters of large", ""},
		{"a job", "lane: bob", "lane: ann", "jobs of mail", ""},
		{"a post", "{total: 100}]}", "{total: 1}]}", "posts of post", ""},
		{"a header", "h: x}, time: 2026-01-01T11:00:00Z}\n        - {type", "h: y}}\n        - {type", "stream shop/large", ""},
		{"a time", "11:00:00Z}\n        - {type", "11:00:01Z}\n        - {type", "stream shop/large", ""},
		{"what a join finds", "{name: Ann}", "{name: Ada}", "stream shop/named", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Contains(t, cases, tt.old)
			found := try(t, tried, strings.Replace(cases, tt.old, tt.with, 1))
			require.Len(t, found, 1)
			require.Equal(t, tt.where, found[0].Where)
			var lines []string
			for _, l := range found[0].Lines {
				lines = append(lines, l.Sign+l.Text)
			}
			if tt.lines != "" {
				require.Equal(t, tt.lines, strings.Join(lines, "\n"))
			}
		})
	}
}

// TestTryBounds: a circle that does not end is told, and much more than expected is not shown whole.
func TestTryBounds(t *testing.T) {
	t.Parallel()
	circle := "topology: t\nscopes: {s: {streams: {in: {external: true}, out: {}}}}\nstages:\n  a: {from: s/in, to: s/out, filter: 'true'}\n  b: {from: s/out, to: s/in, filter: 'true'}\n"
	f := files{"doc.yaml": circle, "cases.yaml": "document: doc.yaml\ncases: {all: {given: {s/in: [{data: 1}]}}}\n"}
	c, doc, err := topology.LoadCases("cases.yaml", f.options(nil))
	require.NoError(t, err)
	_, err = doc.Try(t.Context(), c.Cases["all"], stage.Options{})
	require.ErrorContains(t, err, "is there a circle that does not end")
	many := strings.Repeat("{data: 1}, ", 300)
	found := try(t, strings.Split(circle, "  b:")[0], "document: doc.yaml\ncases: {all: {given: {s/in: ["+many+"]}, expect: {s/out: []}}}\n")
	require.Len(t, found[0].Lines, 101)
	require.Equal(t, topology.Line{Sign: "+", Text: "... and 200 more"}, found[0].Lines[100])
	one := strings.Split(circle, "  b:")[0]
	most := strings.Repeat("{data: 1}, ", 2000)
	require.Empty(t, try(t, one, "document: doc.yaml\ncases: {all: {given: {s/in: ["+most+"]}, expect: {s/out: ["+most+"]}}}\n"), "what is equal costs a look at each")
	found = try(t, one, "document: doc.yaml\ncases: {all: {given: {s/in: [{data: 0}, "+most+"]}, expect: {s/out: ["+strings.ReplaceAll(most, "1", "2")+"]}}}\n")
	require.Len(t, found[0].Lines, 4001, "what differs in all is shown as it comes")
	require.Equal(t, topology.Line{Sign: "-", Text: `{"data":2}`}, found[0].Lines[0])
	require.Equal(t, topology.Line{Sign: "+", Text: `{"data":0,"key":""}`}, found[0].Lines[2000])
}

// TestCases: what is wrong with cases is told with its place.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"cases: {}\n", "cases.yaml:1:1: document: nothing says what is tested; write its file, as in document: shop.yaml"},
		{"document: none.yaml\n", "cases.yaml:1:11: document: it cannot be read: "},
		{"document: doc.yaml\n", "cases.yaml:1:1: cases: there are no cases"},
		{"document: doc.yaml\ncases: {a: {given: {shop/inn: []}}}\n", "cases.yaml:2:31: cases.a.given.shop/inn: the document has no stream of this name; did you mean shop/in?"},
		{"document: doc.yaml\ncases: {a: {given: {shop/in: []}, dead: {lage: []}, jobs: {male: []}}}\n", "the document has no stage of this name; did you mean large?"},
		{"document: doc.yaml\ncases: {a: {given: {shop/in: [{time: 2026-01-02T00:00:00Z}, {time: 2026-01-01T00:00:00Z}]}}}\n", "it is before that of the message before"},
		{"document: doc.yaml\ncases: {a: {expekt: {}}}\n", "cases.yaml:2:13: cases.a.expekt: there is no such field; did you mean expect?"},
		{"document: doc.yaml\ncases: {a: {given: {shop/in: [{data: {1: a, [b]: c}}]}}}\n", "cases.a.given.shop/in.0.data: it cannot be"},
	} {
		_, _, err := topology.LoadCases("cases.yaml", files{"doc.yaml": tried, "cases.yaml": tt.text}.options(nil))
		require.ErrorContains(t, err, tt.want)
	}
}

// TestNull: null is expected where it is written, and is another thing than that nothing is.
func TestNull(t *testing.T) {
	document := "topology: t\nscopes: {s: {streams: {a: {external: true}, b: {}}}}\nstages: {x: {from: s/a, to: s/b, map: data.x}}\n"
	given := "document: doc.yaml\ncases: {all: {given: {s/a: [{data: {x: null}}, {data: {x: 1}}]}, expect: {s/b: [{data: null}, "
	require.Empty(t, try(t, document, given+"{}]}}}\n"))
	require.Len(t, try(t, document, given+"{data: null}]}}}\n"), 1)
	require.Empty(t, try(t, document, "document: doc.yaml\ncases: {all: {given: {s/a: [{data: null}]}, dead: {x: [data is nil]}}}\n"))
}

// TestWatermarkInCircle: a watermark goes through all of a circle, and once.
func TestWatermarkInCircle(t *testing.T) {
	require.Empty(t, try(t, `topology: t
scopes: {s: {streams: {a: {external: true}, b: {}, c: {}}}}
stages:
  less: {from: s/a, to: s/b, filter: data > 0}
  once: {from: s/b, to: s/a, map: data - 1}
  all: {from: s/b, to: s/c, batch: {size: 9}}
`, `document: doc.yaml
cases: {all: {given: {s/a: [{data: 2}, {type: emq.watermark}]}, expect: {s/a: [{data: 1}, {type: emq.watermark}, {data: 0}], s/c: [{data: [2]}, {type: emq.watermark}]}}}
`))
}

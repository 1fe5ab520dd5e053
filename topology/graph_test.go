package topology_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology"
)

// TestPicture: each format has every node and every edge, whatever they are called.
func TestPicture(t *testing.T) {
	doc, err := files{"doc.yaml": strings.Replace(quakes, `"data.mag >= 5"`, `'data.mag >= 5 && key != "<&>"'`, 1)}.load(nil)
	require.NoError(t, err)
	p := doc.Picture(topology.Live{"stream quakes/raw": "12/s <&>"})
	require.Contains(t, p.Mermaid(), "flowchart LR\n")
	require.Contains(t, p.Mermaid(), `[("quakes/raw<br>12/s #lt;#amp;#gt;")]`)
	require.Contains(t, p.DOT(), `[shape=cylinder, label="quakes/raw\n12/s <&>"]`)
	svg := p.SVG()
	if path := os.Getenv("SVG"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(svg), 0o600))
	}
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
	const nodes, edges = 11, 10
	require.Equal(t, nodes, strings.Count(p.DOT(), "shape="))
	require.Equal(t, edges, strings.Count(p.DOT(), "->"))
	require.Equal(t, edges, strings.Count(p.Mermaid(), "-->"))
	require.Equal(t, nodes, count["g"])
	require.Equal(t, edges+1, count["path"], "and the arrow")
}

// TestLabels: what stands at an edge lies on no node and on no other label.
func TestLabels(t *testing.T) {
	doc, err := files{"doc.yaml": `topology: t
scopes: {s: {streams: {in: {external: true}, a: {}, b: {}, a-stream-with-a-long-name: {}, d: {}}}}
stages:
  a-stage-with-a-name-that-is-long:
    from: s/in
    route:
      - {when: type == "order.accepted", to: s/a}
      - {when: type == "order.expedited", to: s/b}
      - {when: type == "order.dispatched", to: s/a-stream-with-a-long-name}
  short: {from: s/in, route: [{when: 'type == "order.cancelled"', to: s/d}]}
`}.load(nil)
	require.NoError(t, err)
	type area struct{ x, y, w, h float64 }
	var nodes, labels []area
	for _, line := range strings.Split(doc.Picture(nil).SVG(), "\n") {
		var a area
		if _, rect, ok := strings.Cut(line, "<rect class="); ok {
			_, at, _ := strings.Cut(rect, " x=")
			_, err := fmt.Sscanf(at, "%q y=%q width=%q height=%q", num{&a.x}, num{&a.y}, num{&a.w}, num{&a.h})
			require.NoError(t, err, line)
			nodes = append(nodes, a)
		}
		if _, text, ok := strings.Cut(line, `<text class="e" x=`); ok {
			_, err := fmt.Sscanf(text, "%q y=%q", num{&a.x}, num{&a.y})
			require.NoError(t, err, line)
			const letters = 26
			labels = append(labels, area{a.x - letters*2.5, a.y - 9, letters * 5, 11}) // 10 px, five to a letter, above the line
		}
	}
	require.Len(t, labels, 4)
	for i, l := range labels {
		for _, o := range append(nodes, labels[i+1:]...) {
			require.False(t, l.x < o.x+o.w && o.x < l.x+l.w && l.y < o.y+o.h && o.y < l.y+l.h, "%v lies on %v", l, o)
		}
	}
}

// num reads a number between quotes.
type num struct{ to *float64 }

func (n num) Scan(state fmt.ScanState, _ rune) error {
	text, err := state.Token(false, func(r rune) bool { return r != ' ' && r != '/' && r != '>' })
	if err == nil {
		*n.to, err = strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	}
	return err
}

// TestPictureOfJoins: a join stands behind the projection that it reads, which is no way that messages take.
func TestPictureOfJoins(t *testing.T) {
	doc, err := files{"doc.yaml": `topology: t
scopes: {s: {streams: {in: {external: true}, out: {}}}, other: {streams: {in: {external: true}}}}
stages: {known: {from: s/in, to: s/out, join: {state: latest.2}}}
projections: {latest: {from: s/out, version: 2}, other: {from: other/in}}
`}.load(nil)
	require.NoError(t, err, "messages do not go round")
	require.Contains(t, doc.Picture(nil).DOT(), `n6 -> n5 [label="joins"]`)
	require.Equal(t, 1, strings.Count(doc.Picture(nil).Mermaid(), "joins"))
}

// TestObserve: rates and lags are the server's.
func TestObserve(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	doc := f.document(shop)
	f.apply(doc)
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.own + "/in"})
	require.NoError(t, err)
	_, err = w.AppendBatch(f.ctx, make([]codec.Message, 3))
	require.NoError(t, err)
	live, err := topology.Observe(f.ctx, f.client, doc, time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, topology.Live{
		"stream " + f.own + "/in": "0/s, 3 entries", "stream " + f.own + "/out": "0/s, 0 entries", "group " + f.own + "/in mailer": "lag 3",
		"stage pass": "not begun", "queue " + f.queue(): "0 ready, 0 active, 0 dead",
	}, live)
	f.destroyed()
}

// large is a document of so many streams, each with a stage to the next, to one far behind, or back.
func large(n int) string {
	var b strings.Builder
	b.WriteString("topology: large\nscopes:\n  s:\n    streams:\n      s0: {external: true}\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "      s%d: {retention: {max_age: 30d, settled: true}, groups: {g: {lease: 5s}}}\n", i)
	}
	b.WriteString("stages:\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  p%d: {from: s/s%d, to: s/s%d, filter: \"data.mag >= %d && data.place contains 'x'\"}\n", i, (i-1)/2, i, i)
	}
	return b.String()
}

// BenchmarkTwoHundredStreams: a document of 200 streams is read, checked and drawn.
func BenchmarkTwoHundredStreams(b *testing.B) {
	f := files{"doc.yaml": large(200)}
	b.Run("validate", func(b *testing.B) {
		for b.Loop() {
			_, err := f.load(nil)
			require.NoError(b, err)
		}
	})
	doc, err := f.load(nil)
	require.NoError(b, err)
	b.Run("graph", func(b *testing.B) {
		for b.Loop() {
			require.NotEmpty(b, doc.Picture(nil).SVG())
		}
	})
	x := setUp(b, tiertest.Shared(b, tiertest.Valkey))
	doc = x.document(strings.NewReplacer("topology: large", "topology: NAME", "  s:\n", "  SCOPE:\n", ": s/s", ": SCOPE/s").Replace(f["doc.yaml"]))
	x.apply(doc)
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			require.Empty(b, x.plan(doc).Changes)
		}
	})
	x.destroyed()
}

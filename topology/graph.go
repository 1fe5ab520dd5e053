package topology

import (
	"fmt"
	"html"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// Picture is a document as a graph: what messages go through, from left to right.
type Picture struct {
	title string
	flow  *flow
	live  Live
}

// Picture of the document. Live is what Observe has seen; nil: it is drawn as it is declared.
func (d *Document) Picture(live Live) *Picture {
	f := d.flow()
	for _, name := range sorted(d.Stages) {
		for _, projection := range sorted(d.Projections) {
			c, join := d.Projections[projection], d.Stages[name].Join
			if a, err := tier.ParseAddress(d.Stages[name].From); err == nil && join != nil && join.State == c.Cursor(projection) && strings.HasPrefix(c.From, a.Scope+"/") {
				f.link(f.byKey[nodeKey(foldNode, projection)], f.byKey[nodeKey(stageNode, name)], "joins")
			}
		}
	}
	return &Picture{d.Name, f, live}
}

// lines are what stands in a node: its name, what it is, and what goes on there.
func (p *Picture) lines(n *node) (lines []string) {
	switch n.kind {
	case worldNode:
		lines = []string{"programs"}
	case groupNode:
		_, own, _ := strings.Cut(n.name, " ")
		lines = []string{own, "group"}
	case streamNode:
		lines = []string{n.name}
	case queueNode:
		lines = []string{n.name, "queue"}
	case foldNode:
		lines = []string{n.name, "projection"}
	default:
		what := n.verb
		if n.kind != stageNode {
			what = n.kind + ", " + n.verb
		}
		lines = []string{n.name, what}
	}
	if seen := p.live[liveKey(n)]; seen != "" {
		lines = append(lines, seen)
	}
	return lines
}

// Mermaid is the picture in the language of mermaid.js.org.
func (p *Picture) Mermaid() string {
	text := func(s string) string {
		return strings.NewReplacer("&", "#amp;", `"`, "#quot;", "<", "#lt;", ">", "#gt;").Replace(s)
	}
	shapes := map[string][2]string{streamNode: {"[(", ")]"}, stageNode: {"[", "]"}, foldNode: {"{{", "}}"}, sourceNode: {"[/", "/]"}, sinkNode: {"[/", "/]"}, queueNode: {"[[", "]]"}, groupNode: {"([", "])"}, worldNode: {"([", "])"}}
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	ids := map[*node]string{}
	for i, n := range p.flow.nodes {
		ids[n] = fmt.Sprintf("n%d", i)
		lines := p.lines(n)
		for j := range lines {
			lines[j] = text(lines[j])
		}
		fmt.Fprintf(&b, "  %s%s\"%s\"%s\n", ids[n], shapes[n.kind][0], strings.Join(lines, "<br>"), shapes[n.kind][1])
	}
	for _, e := range p.flow.edges {
		arrow := "-->"
		if e.label != "" {
			arrow = `-->|"` + text(clip(e.label, 32)) + `"|`
		}
		fmt.Fprintf(&b, "  %s %s %s\n", ids[e.from], arrow, ids[e.to])
	}
	return b.String()
}

// DOT is the picture in the language of graphviz.org.
func (p *Picture) DOT() string {
	shapes := map[string]string{streamNode: "cylinder", stageNode: "box", foldNode: "hexagon", sourceNode: "parallelogram", sinkNode: "parallelogram", queueNode: "box3d", groupNode: "oval", worldNode: "oval"}
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
	}
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=11];\n  edge [fontname=\"sans-serif\", fontsize=9];\n", quote(p.title))
	ids := map[*node]string{}
	for i, n := range p.flow.nodes {
		ids[n] = fmt.Sprintf("n%d", i)
		fmt.Fprintf(&b, "  %s [shape=%s, label=%s];\n", ids[n], shapes[n.kind], quote(strings.Join(p.lines(n), "\n")))
	}
	for _, e := range p.flow.edges {
		fmt.Fprintf(&b, "  %s -> %s", ids[e.from], ids[e.to])
		if e.label != "" {
			fmt.Fprintf(&b, " [label=%s]", quote(clip(e.label, 32)))
		}
		b.WriteString(";\n")
	}
	return b.String() + "}\n"
}

// clip is a text of so many runes at most.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

const style = `<style>
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933;text-anchor:middle}
.b{font-size:10.5px;fill:#5b6770}.l{font-size:10px;fill:#7b3f00;font-weight:600}.e{font-size:10px;fill:#5b6770;paint-order:stroke;stroke:#fff;stroke-width:4px}
path{fill:none;stroke:#8a949e;stroke-width:1.4}.a{fill:#8a949e;stroke:none}.c{stroke-dasharray:5 3}.n{stroke-width:1.3}
.stream{fill:#e6f0fb;stroke:#3b7dc4}.stage,.projection{fill:#fff6e0;stroke:#c98a1b}.source,.sink{fill:#e8f6ec;stroke:#3c9a5f}.queue{fill:#f3eafb;stroke:#8a56b8}.group,.world{fill:#f4f5f7;stroke:#8a949e;stroke-dasharray:4 3}
@media(prefers-color-scheme:dark){text{fill:#e4e9ee}.b{fill:#aab4be}.l{fill:#ffb870}.e{fill:#aab4be;stroke:#0d1117}.stream{fill:#14293f}.stage,.projection{fill:#3a2d10}.source,.sink{fill:#12301d}.queue{fill:#2c1c3b}.group,.world{fill:#1c2128}}
</style>`

// SVG is the picture itself, which needs nothing to be seen.
func (p *Picture) SVG() string {
	l := layOut(p)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img"><title>%s</title>`+"\n%s\n", l.width, l.height, l.width, l.height, html.EscapeString(p.title), style)
	b.WriteString(`<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="a" d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	for _, w := range l.ways {
		class := ""
		if w.back {
			class = ` class="c"`
		}
		fmt.Fprintf(&b, "<path%s d=\"%s\" marker-end=\"url(#to)\"/>\n", class, w.path)
	}
	for _, box := range l.boxes {
		box.draw(&b)
	}
	for _, w := range l.ways {
		if w.label != "" {
			fmt.Fprintf(&b, "<text class=\"e\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", w.at.x, w.at.y, html.EscapeString(w.label))
		}
	}
	return b.String() + "</svg>\n"
}

// draw draws a node: its shape and its lines.
func (box *box) draw(b *strings.Builder) {
	x, y, w, h := box.x-box.w/2, box.y-box.h/2, box.w, box.h
	class := "n " + box.node.kind
	fmt.Fprintf(b, "<g><title>%s</title>", html.EscapeString(box.node.path))
	switch box.node.kind {
	case streamNode: // a log: a band that goes on
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f"/>`, class, x, y, w, h, h/2)
	case sourceNode, sinkNode:
		fmt.Fprintf(b, `<polygon class="%s" points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`, class, x+8, y, x+w+4, y, x+w-8, y+h, x-4, y+h)
	case queueNode:
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x, y, w, h, class, x+4, y, w-8, h)
	default:
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="5"/>`, class, x, y, w, h)
	}
	top := box.y - float64(len(box.lines)-1)*lineHeight/2 + 4
	for i, line := range box.lines {
		class := ""
		switch {
		case i == len(box.lines)-1 && box.lively:
			class = ` class="l"`
		case i > 0:
			class = ` class="b"`
		}
		fmt.Fprintf(b, `<text%s x="%.1f" y="%.1f">%s</text>`, class, box.x, top+float64(i)*lineHeight, html.EscapeString(line))
	}
	b.WriteString("</g>\n")
}

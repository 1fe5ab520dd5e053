package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A layered drawing (Sugiyama): edges that close a circle are turned round, each node stands one layer behind the last that
// leads to it, long edges bend at each layer between, layers are put into an order with few crossings, and then the nodes where
// their neighbours are. All sizes are in pixels.

const (
	lineHeight = 15.0
	gapAcross  = 18.0 // between two of a layer
	gapAlong   = 70.0 // between layers, where no label wants more
	letter     = 5.6  // of a label
	longest    = 26   // letters of a label
	margin     = 16.0
	sweeps     = 12
)

type point struct{ x, y float64 }

// box is a node with its place, or a bend of an edge, which has no node.
type box struct {
	node       *node
	lines      []string
	lively     bool // the last line is what goes on there
	layer      int
	x, y, w, h float64
	room       float64 // for the labels of what leaves it
	side       float64 // half the width of its layer
	before     []*box  // in the layer on the left
	behind     []*box
	order      float64
}

// way is an edge with its place.
type way struct {
	path  string // as SVG has it
	at    point  // of the label
	label string
	back  bool
}

type layout struct {
	boxes         []*box
	ways          []*way
	width, height float64
}

func layOut(p *Picture) *layout {
	l := &layout{}
	boxes := map[*node]*box{}
	for _, n := range p.flow.nodes {
		lines := p.lines(n)
		b := &box{node: n, lines: lines, lively: p.live[liveKey(n)] != "", h: float64(len(lines))*lineHeight + 14}
		for _, line := range lines {
			b.w = max(b.w, float64(len([]rune(line)))*6.9+26)
		}
		boxes[n] = b
		l.boxes = append(l.boxes, b)
	}
	back := circlesTurned(p.flow)
	for _, e := range p.flow.edges {
		if from := boxes[e.from]; e.label != "" && !back[e] {
			from.room = max(from.room, labelRoom(e)+gapAlong/2)
		}
	}
	layer(p.flow, boxes, back)
	layers, chains := bends(p.flow, boxes, back)
	arrange(layers)
	if len(layers) > 0 {
		l.place(layers)
	}
	below := l.height
	for _, e := range p.flow.edges {
		if back[e] {
			l.height = max(l.height, below+gapAcross)
			l.ways = append(l.ways, round(e, boxes[e.from], boxes[e.to], below))
		} else {
			l.ways = append(l.ways, routed(e, chains[e]))
		}
	}
	return l
}

// labelRoom is how wide the label of an edge is, with room to its right.
func labelRoom(e *edge) float64 {
	return float64(len([]rune(clip(e.label, longest))))*letter + gapAcross
}

// circlesTurned are the edges that close a circle.
func circlesTurned(f *flow) map[*edge]bool {
	back, state := map[*edge]bool{}, map[*node]int{}
	var walk func(n *node)
	walk = func(n *node) {
		state[n] = 1
		for _, e := range n.out {
			switch state[e.to] {
			case 0:
				walk(e.to)
			case 1:
				back[e] = true
			}
		}
		state[n] = 2
	}
	for _, n := range f.nodes {
		if len(n.in) == 0 {
			walk(n)
		}
	}
	for _, n := range f.nodes {
		if state[n] == 0 {
			walk(n)
		}
	}
	return back
}

// layer gives each node its layer: the longest way to it.
func layer(f *flow, boxes map[*node]*box, back map[*edge]bool) {
	waits := map[*node]int{}
	for _, e := range f.edges {
		if !back[e] {
			waits[e.to]++
		}
	}
	var ready []*node
	for _, n := range f.nodes {
		if waits[n] == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		n := ready[0]
		ready = ready[1:]
		for _, e := range n.out {
			if back[e] {
				continue
			}
			boxes[e.to].layer = max(boxes[e.to].layer, boxes[n].layer+1)
			if waits[e.to]--; waits[e.to] == 0 {
				ready = append(ready, e.to)
			}
		}
	}
	for _, n := range f.nodes { // what begins stands beside what it leads to
		if len(n.in) == 0 && len(n.out) == 1 {
			boxes[n].layer = max(0, boxes[n.out[0].to].layer-1)
		}
	}
}

// bends puts a bend into each layer that an edge passes. Chains are the boxes of each edge, from left to right; one that closes
// a circle has none.
func bends(f *flow, boxes map[*node]*box, back map[*edge]bool) (layers [][]*box, chains map[*edge][]*box) {
	chains = map[*edge][]*box{}
	put := func(b *box) {
		for len(layers) <= b.layer {
			layers = append(layers, nil)
		}
		layers[b.layer] = append(layers[b.layer], b)
	}
	for _, n := range f.nodes {
		put(boxes[n])
	}
	for _, e := range f.edges {
		if back[e] {
			continue
		}
		from, to := boxes[e.from], boxes[e.to]
		chain := []*box{from}
		for at := from.layer + 1; at < to.layer; at++ {
			bend := &box{layer: at, h: 6}
			put(bend)
			chain = append(chain, bend)
		}
		chain = append(chain, to)
		for i := range len(chain) - 1 {
			chain[i].behind = append(chain[i].behind, chain[i+1])
			chain[i+1].before = append(chain[i+1].before, chain[i])
		}
		chains[e] = chain
	}
	return layers, chains
}

// arrange orders each layer by where its neighbours stand, from left to right and back again.
func arrange(layers [][]*box) {
	number := func(list []*box) {
		for i, b := range list {
			b.order = float64(i)
		}
	}
	for _, list := range layers {
		number(list)
	}
	sort := func(list []*box, neighbours func(*box) []*box) {
		centre := map[*box]float64{}
		for _, b := range list {
			near := neighbours(b)
			sum := 0.0
			for _, o := range near {
				sum += o.order
			}
			if centre[b] = b.order; len(near) > 0 {
				centre[b] = sum / float64(len(near))
			}
		}
		slices.SortStableFunc(list, func(a, b *box) int { return cmp.Compare(centre[a], centre[b]) })
		number(list)
	}
	for range sweeps {
		for _, list := range layers {
			sort(list, func(b *box) []*box { return b.before })
		}
		for _, list := range slices.Backward(layers) {
			sort(list, func(b *box) []*box { return b.behind })
		}
	}
}

// place gives each box its place: layers side by side, and in them as near to the neighbours as the order leaves room.
func (l *layout) place(layers [][]*box) {
	x := margin
	for _, list := range layers {
		wide, gap := 0.0, gapAlong
		for _, b := range list {
			wide, gap = max(wide, b.w), max(gap, b.room)
		}
		for _, b := range list {
			b.x, b.side = x+wide/2, wide/2
		}
		x += wide
		l.width = x + margin
		x += gap
	}
	for _, list := range layers {
		y := 0.0
		for _, b := range list {
			b.y = y + b.h/2
			y += b.h + gapAcross
		}
	}
	for i := range 2 * sweeps {
		if i%2 == 0 {
			for _, list := range layers {
				settle(list, func(b *box) []*box { return b.before })
			}
		} else {
			for _, list := range slices.Backward(layers) {
				settle(list, func(b *box) []*box { return b.behind })
			}
		}
	}
	top, bottom := math.Inf(1), math.Inf(-1)
	for _, list := range layers {
		for _, b := range list {
			top, bottom = min(top, b.y-b.h/2), max(bottom, b.y+b.h/2)
		}
	}
	for _, list := range layers {
		for _, b := range list {
			b.y += margin - top
		}
	}
	l.height = bottom - top + 2*margin
}

// settle moves the boxes of a layer to their neighbours. Those that want the same room share it: they stand one beside the other
// around the middle of what they want.
func settle(list []*box, neighbours func(*box) []*box) {
	type run struct {
		boxes     []*box
		sum, size float64 // of the places of its first box that its boxes want; from its first to its last
	}
	var runs []*run
	for _, b := range list {
		want := b.y
		if near := neighbours(b); len(near) > 0 {
			want = 0
			for _, o := range near {
				want += o.y / float64(len(near))
			}
		}
		r := &run{[]*box{b}, want, 0}
		for len(runs) > 0 {
			last := runs[len(runs)-1]
			room := (last.boxes[len(last.boxes)-1].h+r.boxes[0].h)/2 + gapAcross
			if last.sum/float64(len(last.boxes))+last.size+room <= r.sum/float64(len(r.boxes)) {
				break
			}
			r = &run{append(last.boxes, r.boxes...), last.sum + r.sum - float64(len(r.boxes))*(last.size+room), last.size + room + r.size}
			runs = runs[:len(runs)-1]
		}
		runs = append(runs, r)
	}
	for _, r := range runs {
		y := r.sum / float64(len(r.boxes))
		for i, b := range r.boxes {
			if i > 0 {
				y += (r.boxes[i-1].h+b.h)/2 + gapAcross
			}
			b.y = y
		}
	}
}

// routed is an edge along its bends.
func routed(e *edge, chain []*box) *way {
	var b strings.Builder
	last := point{chain[0].x + chain[0].w/2, chain[0].y}
	fmt.Fprintf(&b, "M%.1f %.1f", last.x, last.y)
	w := &way{label: clip(e.label, longest)}
	for i, box := range chain[1:] { // a curve from point to point that leaves and arrives level
		p := point{box.x - box.w/2, box.y}
		bend := (p.x - last.x) / 2
		fmt.Fprintf(&b, "C%.1f %.1f %.1f %.1f %.1f %.1f", last.x+bend, last.y, p.x-bend, p.y, p.x, p.y)
		if i == 0 {
			w.at = point{box.x - box.side - labelRoom(e)/2, p.y - 5} // where the curve is nearly level, on the side that it does not come from
			if last.y < p.y {
				w.at.y = p.y + 13
			}
		}
		last = p
	}
	w.path = b.String()
	return w
}

// round is an edge that closes a circle: from below one, under all that lies between, to below the other.
func round(e *edge, from, to *box, below float64) *way {
	return &way{
		label: clip(e.label, longest), back: true, at: point{(from.x + to.x) / 2, below - 4},
		path: fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fL%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f",
			from.x, from.y+from.h/2, from.x, below-8, from.x, below, from.x-margin, below,
			to.x+margin, below, to.x, below, to.x, below-8, to.x, to.y+to.h/2),
	}
}

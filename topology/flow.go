package topology

import (
	"cmp"
	"maps"
	"slices"

	"github.com/echomq/pipeline/tier"
)

// Kinds of what stands in a flow.
const (
	sourceNode = "source"
	streamNode = "stream"
	stageNode  = "stage"
	foldNode   = "projection"
	sinkNode   = "sink"
	queueNode  = "queue"
	groupNode  = "group"
	worldNode  = "world" // programs outside the document
)

// node is one thing of a flow: what messages go through, or stay in.
type node struct {
	kind, name string // streams have addresses for names
	path       string // in the document
	verb       string // of a stage, a source or a sink: what it does
	out, in    []*edge
}

// edge is a way that messages take.
type edge struct {
	from, to *node
	label    string
}

// flow is what goes where in a document.
type flow struct {
	nodes []*node // sources first, then in the order of names
	byKey map[string]*node
	edges []*edge
}

func nodeKey(kind, name string) string { return kind + " " + name }

func (f *flow) add(kind, name, path, verb string) *node {
	n := &node{kind: kind, name: name, path: path, verb: verb}
	f.nodes = append(f.nodes, n)
	f.byKey[nodeKey(kind, name)] = n
	return n
}

// link lets messages go from one to another; what is not declared gets no edge.
func (f *flow) link(from, to *node, label string) {
	if from == nil || to == nil {
		return
	}
	for _, e := range from.out {
		if e.to == to && e.label == label {
			return
		}
	}
	e := &edge{from, to, label}
	from.out, to.in = append(from.out, e), append(to.in, e)
	f.edges = append(f.edges, e)
}

// streamOf is the stream of an address, whichever of its partitions that names; nil: it is not declared.
func (f *flow) streamOf(address string) *node {
	if n := f.byKey[nodeKey(streamNode, address)]; n != nil {
		return n
	}
	if a, err := tier.ParseAddress(address); err == nil {
		return f.byKey[nodeKey(streamNode, a.String())]
	}
	return nil
}

// sorted are the names of a map, in their order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// flow is the document as a graph.
func (d *Document) flow() *flow {
	f := &flow{byKey: map[string]*node{}}
	for _, name := range sorted(d.Sources) {
		c := d.Sources[name]
		f.add(sourceNode, name, "sources."+name, sourceVerb(&c))
	}
	for _, scope := range sorted(d.Scopes) {
		for _, name := range sorted(d.Scopes[scope].Streams) {
			path := "scopes." + scope + ".streams." + name
			s, st := f.add(streamNode, scope+"/"+name, path, ""), d.Scopes[scope].Streams[name]
			if st.External {
				f.link(f.add(worldNode, s.name, path, "programs"), s, "")
			}
			for _, group := range sorted(st.Groups) {
				f.link(s, f.add(groupNode, s.name+" "+group, path+".groups."+group, "group"), "")
			}
		}
	}
	for _, name := range sorted(d.Queues) {
		f.add(queueNode, name, "queues."+name, "")
		if d.Queues[name].Events > 0 {
			f.link(f.byKey[nodeKey(queueNode, name)], f.add(streamNode, tier.Queue(name).Events().String(), "queues."+name+".events", ""), "events")
		}
	}
	for _, name := range sorted(d.Sources) {
		f.link(f.byKey[nodeKey(sourceNode, name)], f.streamOf(d.Sources[name].To), "")
	}
	for _, name := range sorted(d.Stages) {
		c := d.Stages[name]
		n := f.add(stageNode, name, "stages."+name, c.Verb())
		f.link(f.streamOf(c.From), n, "")
		for _, out := range outputs(&c) {
			f.link(n, f.streamOf(out.address), out.label)
		}
		if c.Job != nil {
			f.link(n, f.byKey[nodeKey(queueNode, c.Job.Queue)], "")
		}
	}
	for _, name := range sorted(d.Projections) {
		f.link(f.streamOf(d.Projections[name].From), f.add(foldNode, name, "projections."+name, ""), "")
	}
	for _, name := range sorted(d.Sinks) {
		c := d.Sinks[name]
		f.link(f.streamOf(c.From), f.add(sinkNode, name, "sinks."+name, sinkVerb(&c)), "")
	}
	return f
}

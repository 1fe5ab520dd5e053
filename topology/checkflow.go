package topology

import (
	"path/filepath"
	"strings"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology/stage"
)

// flow checks what goes where: that it is declared, that something comes to every stream, and that nothing goes round for ever.
func (p *Problems) flow(d *Document) {
	f := d.flow()
	for _, name := range sorted(d.Sources) {
		p.stands(d, f, "sources."+name+".to", d.Sources[name].To)
		p.mayWrite(d, "sources."+name+".to", d.Sources[name].To)
		if a, err := tier.ParseAddress(d.Sources[name].To); err == nil && d.Scopes[a.Scope].Streams[a.Stream].Keyed {
			p.add("sources."+name+".to", "leave keyed out, or append to another stream and let a stage pass it on", "%s is keyed, which no source appends to", a)
		}
	}
	ended := map[string]string{}
	for _, name := range sorted(d.Sources) {
		c := d.Sources[name]
		if c.File == nil || !c.File.Watermark {
			continue
		}
		if first, is := ended[c.To]; is {
			p.add("sources."+name+".file.watermark", "leave it out of both, and append a message of type "+stage.WatermarkType+" when both are through", "source %s ends %s too, and what this one brings behind that would be late", first, c.To)
		}
		ended[c.To] = name
	}
	readers := map[string]string{} // who has a cursor or a group of a name on a stream
	for _, n := range f.nodes {
		if n.kind == groupNode {
			readers[n.name] = n.path
		}
	}
	reads := func(name, path, from string) {
		p.stands(d, f, path+".from", from)
		key := from + " " + name
		if first, taken := readers[key]; taken && from != "" {
			p.add(path, "give one of them another name", "%s reads %s under that name", first, from)
		}
		readers[key] = path
	}
	for _, name := range sorted(d.Stages) {
		c, path := d.Stages[name], "stages."+name
		reads(name, path, c.From)
		p.keyless(d, path, &c)
		for _, out := range outputs(&c) {
			p.stands(d, f, path+"."+out.field, out.address)
			p.mayWrite(d, path+"."+out.field, out.address)
		}
		if c.Job != nil && c.Job.Queue != "" {
			if _, there := d.Queues[c.Job.Queue]; !there && tier.CheckName("scope", c.Job.Queue) == nil {
				p.add(path+".job.queue", meant(c.Job.Queue, sorted(d.Queues), "declare it below queues:"), "there is no queue %s", c.Job.Queue)
			}
		}
	}
	for _, name := range sorted(d.Stages) {
		if join := d.Stages[name].Join; join != nil {
			if c, there := d.Projections[join.State]; there {
				p.add("stages."+name+".join.state", "write "+c.Cursor(join.State), "a projection has a state for each version: there is none called %s", join.State)
			}
		}
	}
	for _, name := range sorted(d.Projections) {
		c := d.Projections[name]
		reads(c.Cursor(name), "projections."+name, c.From)
	}
	for _, name := range sorted(d.Sinks) {
		reads(name, "sinks."+name, d.Sinks[name].From)
	}
	p.decided(d, f)
	p.places(d)
	if len(d.Sources)+len(d.Stages)+len(d.Projections)+len(d.Sinks) > 0 {
		p.reach(f)
	}
	p.cycles(d, f)
}

// keyless refuses results that may have no key where each needs one: they would be refused when they are made, long after what they
// are made of.
func (p *Problems) keyless(d *Document, path string, c *stage.Config) {
	keyed := func(address string) bool {
		a, err := tier.ParseAddress(address)
		return err == nil && d.Scopes[a.Scope].Streams[a.Stream].Keyed
	}
	without := c.Window != nil && c.Window.Key == "" || c.Batch != nil && c.Batch.Key == ""
	if without && keyed(c.To) && !keyed(c.From) {
		p.add(path+"."+c.Verb(), "write key: and an expression that is a text for each message", "%s is keyed, and a message without a key would make a result without one", c.To)
	}
}

// decided asks of a stream of events that all are there, in the order of their keys, and of one stage.
func (p *Problems) decided(d *Document, f *flow) {
	for _, name := range sorted(d.Stages) {
		c, to := d.Stages[name], "stages."+name+".to"
		events := f.streamOf(c.To)
		a, err := tier.ParseAddress(c.To)
		if c.Decide == nil || events == nil || err != nil {
			continue
		}
		st := d.Scopes[a.Scope].Streams[a.Stream]
		if !st.Keyed {
			p.add(to, "declare it so: scopes: {"+a.Scope+": {streams: {"+a.Stream+": {keyed: true}}}}", "%s is not keyed, and what a key is comes from its events", a)
		}
		if st.Retention != nil {
			p.add(to, "leave retention out", "%s has a retention, and what a key is comes from all of its events", a)
		}
		for _, e := range events.in {
			switch {
			case e.from.kind == worldNode:
				p.add(to, "leave external out, and let programs append commands", "%s is external, and what is decided would not know of what programs append", a)
			case e.from.name != name:
				p.add(to, "let it append to another stream", "%s %s appends to %s as well, and what is decided would not know of it", e.from.kind, e.from.name, a)
			}
		}
	}
}

// places names what two would read from or write to that is for one.
func (p *Problems) places(d *Document) {
	taken := map[string]string{}
	take := func(what, owner, path, does, do string) {
		if first, is := taken[what]; is {
			p.add(path, do, "%s %s", first, does)
		}
		taken[what] = owner
	}
	for _, name := range sorted(d.Sources) {
		c, path := d.Sources[name], "sources."+name
		switch {
		case c.Stdin != nil:
			take("stdin", "source "+name, path+".stdin", "reads it", "leave one of them out")
		case c.HTTP != nil && !strings.HasSuffix(c.HTTP.Listen, ":0"):
			take("listen "+c.HTTP.Listen, "source "+name, path+".http.listen", "listens there", "give one of them another port")
		}
	}
	for _, name := range sorted(d.Sinks) {
		if c := d.Sinks[name]; c.File != nil {
			take("file "+filepath.Clean(c.File.Path), "sink "+name, "sinks."+name+".file.path", "writes to that file", "give one of them another")
		}
	}
}

// stands asks for a declaration of a stream, in a scope without partitions.
func (p *Problems) stands(d *Document, f *flow, path, address string) {
	a, err := tier.ParseAddress(address)
	if err == nil && d.Scopes[a.Scope].Partitions > 0 {
		p.add(path, "put it into a scope without, or read it by a program (consumer.Partitioned)", "%s is in partitions, which sources, stages, projections and sinks do not know", a)
	}
	if err != nil || f.streamOf(address) != nil { // what is none, its stage has told
		return
	}
	var all []string
	for _, n := range f.nodes {
		if n.kind == streamNode {
			all = append(all, n.name)
		}
	}
	p.add(path, meant(a.String(), all, "declare it: scopes: {"+a.Scope+": {streams: {"+a.Stream+": {}}}}"), "there is no stream %s", a)
}

// mayWrite refuses a second writer of an exclusive stream.
func (p *Problems) mayWrite(d *Document, path, address string) {
	a, err := tier.ParseAddress(address)
	if err == nil && d.Scopes[a.Scope].Streams[a.Stream].Exclusive {
		p.add(path, "leave exclusive out, or append to another stream", "%s is exclusive: its one writer is a program that mints its ids, and this would be another", a)
	}
}

// reach names streams that no message ever comes to, by what is declared.
func (p *Problems) reach(f *flow) {
	reached := map[*node]bool{}
	var roots []*node
	for _, n := range f.nodes {
		if n.kind == sourceNode || n.kind == worldNode || n.kind == queueNode {
			roots = append(roots, n)
		}
	}
	visit(roots, reached)
	told := map[*node]bool{}
	for _, n := range f.nodes {
		if n.kind == streamNode && len(n.in) == 0 {
			p.add(n.path, "give a source or a stage to: "+n.name+", or write external: true, if programs outside append to it", "nothing writes to stream %s", n.name)
			visit([]*node{n}, told) // what follows has nothing for the same reason
		}
	}
	for _, n := range f.nodes {
		if n.kind == streamNode && !reached[n] && !told[n] {
			p.add(n.path, "let a source or another stage append to it", "nothing comes to stream %s: only stages write to it that read what they write themselves", n.name)
		}
	}
}

// visit marks all that messages reach from some nodes.
func visit(from []*node, seen map[*node]bool) {
	for _, n := range from {
		if !seen[n] {
			seen[n] = true
			for _, e := range n.out {
				visit([]*node{e.to}, seen)
			}
		}
	}
}

// cycles names those that a message never leaves.
func (p *Problems) cycles(d *Document, f *flow) {
	for _, part := range circles(f) {
		inside := func(address string) bool {
			n := f.streamOf(address)
			return n != nil && part[n]
		}
		var names []string
		var first *node
		exit := false
		for _, n := range f.nodes {
			if !part[n] {
				continue
			}
			names = append(names, n.name)
			if n.kind == stageNode {
				c := d.Stages[n.name]
				exit = exit || leaves(&c, inside)
				if first == nil {
					first = n
				}
			}
		}
		if !exit {
			p.add(first.path, "let a stage of it filter or route some away", "messages go round for ever: %s", strings.Join(names, ", "))
		}
	}
}

// leaves is drops, of a stage that has a verb.
func leaves(c *stage.Config, inside func(string) bool) bool {
	return c.Verb() == "" || drops(c, inside)
}

// circles are the parts of a flow in which each comes from each (Tarjan).
func circles(f *flow) (parts []map[*node]bool) {
	number, low, on := map[*node]int{}, map[*node]int{}, map[*node]bool{}
	var stack []*node
	var walk func(n *node)
	walk = func(n *node) {
		number[n] = len(number) + 1
		low[n] = number[n]
		stack, on[n] = append(stack, n), true
		for _, e := range n.out {
			if number[e.to] == 0 {
				walk(e.to)
				low[n] = min(low[n], low[e.to])
			} else if on[e.to] {
				low[n] = min(low[n], number[e.to])
			}
		}
		if low[n] != number[n] {
			return
		}
		part := map[*node]bool{}
		for !part[n] {
			last := stack[len(stack)-1]
			stack, on[last], part[last] = stack[:len(stack)-1], false, true
		}
		if len(part) > 1 { // a stream and a stage at least: no edge goes from a node to itself
			parts = append(parts, part)
		}
	}
	for _, n := range f.nodes {
		if number[n] == 0 {
			walk(n)
		}
	}
	return parts
}

package topology

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// Verb is what a plan does to a thing.
type Verb string

// The verbs of changes.
const (
	Create  Verb = "create"
	Adopt   Verb = "adopt"   // it is there as declared, and nobody's: it is the topology's from now on
	Modify  Verb = "change"  // at once, under whoever uses it
	Migrate Verb = "migrate" // it waits until others have handled what there is
	Destroy Verb = "destroy"
	Refuse  Verb = "refuse" // it cannot be what is declared; nothing at all is applied
)

// Change is one step of a plan, or what has drifted.
type Change struct {
	Verb Verb   `json:"verb"`
	Kind string `json:"kind"` // stream, group, ...
	// Of is where it is, its scope, its stream or its queue; Name what it is called there. A stream, a queue and a scope's
	// partitions are Of, and have no Name.
	Of   string `json:"of"`
	Name string `json:"name,omitempty"`
	// Attributes that differ.
	Attributes []Difference `json:"attributes,omitempty"`
	// Why it is refused and what to do then; or what goes with it.
	Why string `json:"why,omitempty"`

	what *resource // nil: it is destroyed
	noun name
}

// Difference is an attribute as it is and as it is to be; empty is the default.
type Difference struct {
	Attribute string `json:"attribute"`
	From      string `json:"from"`
	To        string `json:"to"`
}

// Thing is what changes, as a person reads it: "group mailer of shop/orders".
func (c *Change) Thing() string { return c.noun.text() }

// Plan is what there is to do so that a server is as a document says, in the order in which it is done.
type Plan struct {
	Topology string
	Changes  []Change

	wanted   []*resource
	snapshot *snapshot
}

// PlanOf compares a document with a server, and changes nothing.
func PlanOf(ctx context.Context, client *tier.Client, d *Document) (*Plan, error) {
	wanted := d.resources()
	s, err := snapshotOf(ctx, client, d.Name, wanted)
	if err != nil {
		return nil, err
	}
	return &Plan{d.Name, diff(d.Name, wanted, s), wanted, s}, nil
}

// Has tells whether the plan has changes of one of some verbs.
func (p *Plan) Has(verbs ...Verb) bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return slices.Contains(verbs, c.Verb) })
}

// diff is what there is to do: refusals first, then what is made, in the order of kinds, then what goes, the other way round.
// It is pure.
func diff(topology string, wanted []*resource, s *snapshot) []Change {
	var refused, made, gone []Change
	named := map[name]bool{}
	for _, w := range wanted {
		named[w.name] = true
		switch c := change(topology, w, s); c.Verb {
		case "":
		case Refuse:
			refused = append(refused, c)
		default:
			made = append(made, c)
		}
	}
	for n, d := range s.declared {
		if d.Topology != topology || named[n] {
			continue
		}
		if c := removal(n, s, func(of name) bool { return s.declared[of].Topology == topology && !named[of] }); c.Verb == Refuse {
			refused = append(refused, c)
		} else {
			gone = append(gone, c)
		}
	}
	slices.SortFunc(gone, func(a, b Change) int { return compareNames(b.noun, a.noun) })
	slices.SortStableFunc(refused, func(a, b Change) int { return compareNames(a.noun, b.noun) })
	return slices.Concat(refused, made, gone)
}

func newChange(v Verb, n name, w *resource, why string) Change {
	return Change{Verb: v, Kind: n.kind, Of: n.of, Name: n.own, Why: why, what: w, noun: n}
}

// change is what there is to do about something that is declared; without a verb: nothing.
func change(topology string, w *resource, s *snapshot) Change {
	holder, held := s.declared[w.name]
	if held && holder.Topology != topology {
		return newChange(Refuse, w.name, w, fmt.Sprintf("topology %s has declared it: take it out of that one and apply it, or give it another name here", holder.Topology))
	}
	have, there := s.found[w.name]
	for other, d := range s.namesakes(w.name) {
		if keeps := w.keeps(); d.Topology != topology && keeps != "" && keeps == parseAttributes(d.Text).keeps() {
			return newChange(Refuse, w.name, w, fmt.Sprintf("%s of topology %s keeps its state under that name: give this one another", other.text(), d.Topology))
		}
	}
	if w.kind == kindCursor || w.kind == kindProjection {
		if held && holder.Text == w.attributes.text() {
			return Change{}
		}
		if held && w.kind == kindProjection {
			c := newChange(Modify, w.name, w, "made beside the one that readers use, until 'pipeline projections switch'")
			c.Attributes = differences(parseAttributes(holder.Text), w.attributes, nil)
			return c
		}
		if held {
			return newChange(Adopt, w.name, w, "")
		}
		return newChange(Create, w.name, w, "when what reads by it runs for the first time")
	}
	if why := impossible(w, s, there); why != "" {
		return newChange(Refuse, w.name, w, why)
	}
	if !there || have.implied && !held {
		c := newChange(Create, w.name, w, "")
		c.Attributes = differences(nil, w.attributes, nil)
		return c
	}
	c := newChange(Modify, w.name, w, "")
	c.Attributes = differences(have.attributes, w.attributes, open[w.kind])
	for _, d := range c.Attributes {
		if why := fixed[w.kind+" "+d.Attribute]; why != "" {
			c.Verb, c.Why = Refuse, why
			return c
		}
	}
	switch {
	case len(c.Attributes) > 0 && w.migrate != nil:
		c.Verb, c.Why = Migrate, "writers wait until groups and cursors have handled all that there is, since the keys move to other partitions"
	case len(c.Attributes) > 0:
	case held && holder.Text == w.attributes.text():
		return Change{}
	default:
		c.Verb = Adopt
	}
	return c
}

// impossible says why something cannot be made as it is declared, where its own attributes do not tell.
func impossible(w *resource, s *snapshot, there bool) string {
	switch w.kind {
	case kindStream:
		scope, own, _ := strings.Cut(w.of, "/")
		brand := w.attributes["brand"]
		if was := s.removed[w.of]; was != "" && brand != "" && was != brand && !there {
			return fmt.Sprintf("a stream of that name had the brand %s, which stays its own after it was removed: leave brand out, or write %s", was, was)
		}
		if other := s.brands[scope+" "+brand]; other != "" && other != own {
			return fmt.Sprintf("stream %s/%s has the brand %s: choose another, or leave it out", scope, other, brand)
		}
		fallthrough
	case kindGroup:
		scope, _, _ := strings.Cut(w.of, "/")
		_, partitioned := s.found[name{kindPartitions, scope, ""}]
		if partitioned && !w.parted {
			return "the scope has partitions at the server: write how many, partitions: N, or give it another name"
		}
	case kindPartitions:
		if s.used[w.of] && !there {
			return "the scope holds streams, and a scope in partitions holds none: give the streams another scope, and move their messages ('pipeline replay')"
		}
	}
	return ""
}

// differences are the attributes that are to change; of open ones, those that are declared.
func differences(have, want attributes, open []string) (list []Difference) {
	keys := maps.Clone(have)
	if keys == nil {
		keys = attributes{}
	}
	maps.Copy(keys, want)
	for _, k := range sorted(keys) {
		if have[k] != want[k] && (want[k] != "" || !slices.Contains(open, k)) {
			list = append(list, Difference{k, have[k], want[k]})
		}
	}
	return list
}

// removal is what there is to do about something that is declared no longer. Goes tells what else is.
func removal(n name, s *snapshot, goes func(name) bool) Change {
	have, there := s.found[n]
	switch {
	case n.kind == kindPartitions:
		return newChange(Destroy, n, nil, "its partitions stay, without streams")
	case !there:
		return newChange(Destroy, n, nil, "it is gone already")
	case have.busy != "":
		return newChange(Refuse, n, nil, have.busy)
	}
	for _, inner := range have.inside {
		if !goes(inner) {
			verb := map[string]string{kindSchedule: "pipeline cron rm"}[inner.kind]
			return newChange(Refuse, n, nil, fmt.Sprintf("%s would go with it, and is not this topology's to destroy: delete it first ('%s')", inner.text(), cmp.Or(verb, "pipeline group delete")))
		}
	}
	return newChange(Destroy, n, nil, have.holds)
}

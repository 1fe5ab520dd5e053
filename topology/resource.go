package topology

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// Kinds of what is declared on a server, in the order in which it is made.
const (
	kindPartitions = "partitions" // of a scope
	kindStream     = "stream"
	kindGroup      = "group"
	kindCursor     = "cursor"     // of a stage or a sink, which makes it itself
	kindProjection = "projection" // as much, with all its versions
	kindQueue      = "queue"
	kindLane       = "lane"
	kindSchedule   = "schedule"
)

var kinds = []string{kindPartitions, kindStream, kindGroup, kindCursor, kindProjection, kindQueue, kindLane, kindSchedule}

// name of a thing: its kind, where it is, and what it is called there.
type name struct{ kind, of, own string }

// String is the name as the server has it: "stream:shop/orders", "group:shop/orders:mailer".
func (n name) String() string { return strings.TrimSuffix(n.kind+":"+n.of+":"+n.own, ":") }

// text is the name as a person reads it.
func (n name) text() string {
	if n.own == "" {
		return n.kind + " " + n.of
	}
	return n.kind + " " + n.own + " of " + n.of
}

// parseName is the inverse of String; false: another version's.
func parseName(text string) (n name, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || !slices.Contains(kinds, parts[0]) {
		return n, false
	}
	n = name{kind: parts[0], of: parts[1]}
	if len(parts) == 3 {
		n.own = parts[2]
	}
	owned := n.kind == kindGroup || n.kind == kindCursor || n.kind == kindProjection || n.kind == kindLane || n.kind == kindSchedule
	return n, owned == (n.own != "")
}

func compareNames(a, b name) int {
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.kind), slices.Index(kinds, b.kind)), cmp.Compare(a.of, b.of), cmp.Compare(a.own, b.own))
}

// attributes are what is declared of a thing, or how it is. What is not there is as by default.
type attributes map[string]string

// text is one line of JSON, as the server remembers it.
func (a attributes) text() string {
	text, err := json.Marshal(map[string]string(a))
	if err != nil {
		panic("topology: " + err.Error())
	}
	return string(text)
}

func parseAttributes(text string) (a attributes) {
	if json.Unmarshal([]byte(text), &a) != nil {
		return nil
	}
	return a
}

// set sets what is not as by default.
func (a attributes) set(k, v string) {
	if v != "" {
		a[k] = v
	}
}

func (a attributes) setNumber(k string, n int) {
	if n > 0 {
		a[k] = strconv.Itoa(n)
	}
}

// resource is a thing that a document declares.
type resource struct {
	name
	attributes
	parted bool // it is in a scope with partitions
	// put makes it, or makes it as it is declared; calling it again does nothing.
	put func(context.Context, *tier.Client) error
	// migrate does what put does not.
	migrate func(context.Context, *tier.Client, func(string)) error
}

// open are attributes that may be anything, where none is declared.
var open = map[string][]string{kindStream: {"brand"}, kindGroup: {"lease"}}

// fixed are attributes that stay as they are, and why.
var fixed = map[string]string{
	"stream brand":     "the ids of a stream begin with its brand for good: leave brand as it is, or declare another stream",
	"stream kind":      "whether a stream is keyed or exclusive stays for good: declare another stream, or remove this one first ('pipeline stream rm')",
	"stream partition": "the scope has partitions on one side only: give the streams another scope",
	"group lease":      "the lease of a group stays as long as there is the group: leave it as it is, or delete the group first ('pipeline group delete')",
	"schedule set":     "a program declares this schedule whenever it starts: give the document's another name",
}

// keeps is whose state what reads by a cursor keeps in the scope, under its own name: a stage's or a sink's; empty: it keeps none.
func (a attributes) keeps() string {
	switch {
	case slices.Contains([]string{"dedupe", "throttle", "batch", "window"}, a[stageNode]):
		return stageNode
	case a[sinkNode] == "file":
		return sinkNode
	}
	return ""
}

// resources are all that the document declares on a server, in the order in which it is made.
func (d *Document) resources() (list []*resource) {
	for _, scope := range sorted(d.Scopes) {
		list = append(list, scopeResources(scope, d.Scopes[scope])...)
	}
	reader := func(kind, own, from string, a attributes) {
		if at, err := tier.ParseAddress(from); err == nil {
			list = append(list, &resource{name: name{kind, at.String(), own}, attributes: a})
		}
	}
	for _, own := range sorted(d.Stages) {
		c := d.Stages[own]
		reader(kindCursor, own, c.From, attributes{stageNode: c.Verb()})
	}
	for _, own := range sorted(d.Sinks) {
		c := d.Sinks[own]
		reader(kindCursor, own, c.From, attributes{sinkNode: sinkVerb(&c)})
	}
	for _, own := range sorted(d.Projections) {
		c := d.Projections[own]
		reader(kindProjection, own, c.From, attributes{"version": strconv.Itoa(c.CurrentVersion())})
	}
	for _, name := range sorted(d.Queues) {
		list = append(list, queueResources(name, d.Queues[name])...)
	}
	slices.SortStableFunc(list, func(a, b *resource) int { return compareNames(a.name, b.name) })
	return list
}

// partsOf are the scopes that hold the streams of one.
func partsOf(scope string, partitions int) []string {
	if partitions == 0 {
		return []string{scope}
	}
	scopes := make([]string, partitions)
	for k := range scopes {
		scopes[k] = tier.PartitionScope(scope, k)
	}
	return scopes
}

func errPlace(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("topology: %s: %w", what, err)
}

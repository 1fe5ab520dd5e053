package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// found is a thing as the server has it.
type found struct {
	attributes
	// implied: it is there whether or not anybody has declared it, as a lane is, and was not touched.
	implied bool
	// holds says what would go with it; busy, why it cannot.
	holds, busy string
	inside      []name // groups and cursors of a stream, schedules of a queue
}

// snapshot is what a server has of the things that a document declares, or its topology has declared before.
type snapshot struct {
	found    map[name]found
	declared map[name]tier.Declared // by all topologies
	brands   map[string]string      // "<scope> <brand>" -> the stream that has it, removed ones, too
	removed  map[string]string      // the brand that a stream had, by address
	used     map[string]bool        // scopes that hold streams, and are no partitions
}

// parts are the scopes that hold the streams of one.
func (s *snapshot) parts(scope string) []string {
	layout, _ := tier.ParseLayout(s.found[name{kindPartitions, scope, ""}].attributes["count"])
	return partsOf(scope, layout.Span())
}

// reading fills a snapshot.
type reading struct {
	*snapshot
	client *tier.Client
}

// snapshotOf asks a server. Wanted are what a document declares.
func snapshotOf(ctx context.Context, client *tier.Client, topology string, wanted []*resource) (*snapshot, error) {
	s := &snapshot{map[name]found{}, map[name]tier.Declared{}, map[string]string{}, map[string]string{}, map[string]bool{}}
	r := &reading{s, client}
	ours := map[name]bool{}
	all, err := client.Declarations(ctx)
	if err != nil {
		return nil, err
	}
	for text, d := range all {
		if n, ok := parseName(text); ok {
			s.declared[n] = d
			ours[n] = d.Topology == topology
		}
	}
	asked := map[name]bool{}
	for _, w := range wanted {
		asked[w.name] = true
	}
	for n, is := range ours {
		if is {
			asked[n] = true
		}
	}
	return s, r.all(ctx, asked)
}

// all asks for all things, scope by scope and queue by queue.
func (r *reading) all(ctx context.Context, asked map[name]bool) error {
	scopes, queues := map[string]bool{}, map[string][]name{}
	addresses := map[string][]name{}
	for n := range asked {
		switch n.kind {
		case kindPartitions:
			scopes[n.of] = true
		case kindStream, kindGroup, kindCursor, kindProjection:
			a, err := tier.ParseAddress(n.of)
			if err != nil {
				return errPlace(err, n.text())
			}
			scopes[a.Scope] = true
			addresses[n.of] = append(addresses[n.of], n)
		default:
			queues[n.of] = append(queues[n.of], n)
		}
	}
	for _, scope := range sorted(scopes) {
		if err := r.scope(ctx, scope, addresses); err != nil {
			return errPlace(err, "scope "+scope)
		}
	}
	for _, own := range sorted(queues) {
		if err := r.queue(ctx, own, queues[own]); err != nil {
			return errPlace(err, "queue "+own)
		}
	}
	return nil
}

// scope asks for the streams of a scope, in all its partitions.
func (r *reading) scope(ctx context.Context, scope string, asked map[string][]name) error {
	layout, err := stream.Partitions(ctx, r.client, scope)
	if err != nil {
		return err
	}
	if layout.Count > 0 {
		count := layout.String()
		r.found[name{kindPartitions, scope, ""}] = found{attributes: attributes{"count": count}}
	}
	parts := partsOf(scope, layout.Count)
	for i, part := range parts {
		if err := r.part(ctx, scope, part, i == 0, asked); err != nil {
			return err
		}
	}
	return nil
}

// part asks for the streams of a scope that holds them: that of the name, or one of its partitions. What one of them lacks is
// not there; what differs from the first is neither the one nor the other.
func (r *reading) part(ctx context.Context, scope, part string, first bool, asked map[string][]name) error {
	policies := map[string]string{}
	list, err := stream.Retentions(ctx, r.client, part)
	if err != nil {
		return err
	}
	for _, one := range list {
		policies[one.Address.Stream] = one.Policy.String()
		if one.Err != nil {
			policies[one.Address.Stream] = "one that this version cannot read"
		}
	}
	seen := map[name]found{}
	for info, err := range stream.Streams(ctx, r.client, part) {
		if err != nil {
			return err
		}
		address := scope + "/" + info.Address.Stream
		r.brands[scope+" "+string(info.Brand)] = info.Address.Stream
		if info.Removed {
			r.removed[address] = string(info.Brand)
			continue
		}
		r.used[part] = info.Partition == ""
		a := attributes{}
		a.set("brand", string(info.Brand))
		a.set("kind", kindOfStream(info.Exclusive, info.Keyed))
		a.set("retention", policies[info.Address.Stream])
		f := found{attributes: a}
		if info.Length > 0 {
			f.holds = fmt.Sprintf("%d entries", info.Length)
		}
		seen[name{kindStream, address, ""}] = f
		if len(asked[address]) > 0 {
			if err := r.readers(ctx, address, info.Address, asked[address], seen); err != nil {
				return err
			}
		}
	}
	for n, f := range seen {
		r.merge(n, f, first)
	}
	for n := range r.found { // in the partitions before this one only
		a, err := tier.ParseAddress(n.of)
		if _, here := seen[n]; !here && !first && err == nil && a.Scope == scope && (n.kind == kindStream || n.kind == kindGroup) {
			delete(r.found, n)
		}
	}
	return nil
}

func (r *reading) merge(n name, f found, first bool) {
	have, there := r.found[n]
	switch {
	case there:
		for k, v := range f.attributes {
			if have.attributes[k] != v {
				have.attributes[k] = "not the same in all partitions"
			}
		}
	case first || n.kind == kindCursor || n.kind == kindProjection:
		r.found[n] = f
	}
}

// readers asks for the groups and cursors of a stream; those of a projection that is asked for are one thing.
func (r *reading) readers(ctx context.Context, address string, at tier.Address, asked []name, seen map[name]found) error {
	groups, err := stream.Groups(ctx, r.client, at.String())
	if err != nil {
		return err
	}
	cursors, err := stream.Cursors(ctx, r.client, at.String())
	if err != nil && !errors.Is(err, stream.ErrNoStream) {
		return err
	}
	itsName := name{kindStream, address, ""}
	itself := seen[itsName]
	note := func(n name, f found) {
		seen[n] = f
		itself.inside = append(itself.inside, n)
	}
	for _, g := range groups {
		f := found{attributes: attributes{}}
		if g.Lease > 0 {
			f.set("lease", leaseText(g.Lease))
		}
		if n := g.Lag + g.Pending + g.Parked; n > 0 {
			f.holds = fmt.Sprintf("%d entries to handle", n)
		}
		note(name{kindGroup, address, g.Name}, f)
	}
	for _, c := range cursors {
		f := found{}
		if c.Owner != "" && c.State == stream.Active {
			f.busy = "it is at work: stop what runs it, and apply again"
		}
		if c.Lag > 0 {
			f.holds = fmt.Sprintf("%d entries to handle", c.Lag)
		}
		n := name{kindCursor, address, c.Name}
		dot := strings.LastIndexByte(c.Name, '.')
		if p := (name{kindProjection, address, c.Name[:max(dot, 0)]}); isVersion(c.Name[dot+1:]) && slices.Contains(asked, p) {
			n = p
			if before, there := seen[n]; there {
				f.busy, f.holds = cmp.Or(f.busy, before.busy), cmp.Or(f.holds, before.holds)
			}
		}
		note(n, f)
	}
	seen[itsName] = itself
	return nil
}

func isVersion(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0 && strconv.Itoa(n) == text
}

// queue asks for a queue, its lanes and schedules.
func (r *reading) queue(ctx context.Context, own string, asked []name) error {
	jobs, err := queue.NewClient(r.client, queue.Config{Queue: own})
	if err != nil {
		return err
	}
	o, err := jobs.Overview(ctx)
	if err != nil {
		return err
	}
	f := found{attributes: queueAttributes(o.Ceiling, o.Rate, o.Events)}
	count := o.Ready + o.Active + o.Scheduled + o.Waiting + o.Dead
	f.implied = len(f.attributes) == 0
	if count > 0 {
		f.busy = fmt.Sprintf("it has %d jobs: let workers finish them, or drain it ('pipeline queues obliterate' deletes them), and apply again", count)
	}
	for _, n := range asked {
		if n.kind == kindLane {
			l, err := jobs.LaneInfo(ctx, n.own)
			if err != nil {
				return err
			}
			a := laneAttributes(l.Lane)
			r.found[n] = found{attributes: a, implied: len(a) == 0}
		}
	}
	list, err := queue.NewSchedules(jobs).List(ctx)
	for _, d := range list {
		n := name{kindSchedule, own, d.Name}
		a := scheduleAttributes(&d.Schedule, d.Set)
		if d.Err != nil {
			a.set("set", "one that this version cannot read")
		}
		r.found[n] = found{attributes: a}
		f.inside = append(f.inside, n)
	}
	r.found[name{kindQueue, own, ""}] = f
	return err
}

package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// result adds up. The error says what does not.
func (d *demo) result() (*Result, error) {
	r := &Result{Network: Network{Name: "total"}, TakenOver: len(d.takenOver)}
	by := d.byNetwork()
	for _, name := range largestFirst(by) {
		n := *by[name]
		r.Networks = append(r.Networks, n)
		r.Published += n.Published
		r.Handled += n.Handled
		r.Repeated += n.Repeated
		r.Window += n.Window
	}
	r.Lost = len(d.ids) - r.Handled
	expected := 0
	for _, id := range d.ids {
		if t := id.Time(); !t.Before(d.t0) && !t.After(d.t1) {
			expected++
		}
	}
	switch {
	case r.Lost != 0 || len(d.handled) != len(d.ids):
		return r, fmt.Errorf("%d events published, %d handled, of which %d are of the stream", len(d.ids), len(d.handled), r.Handled)
	case r.Window != expected || len(d.window) != expected:
		return r, fmt.Errorf("%d events in the window of time, %d by their ids", len(d.window), expected)
	}
	return r, nil
}

// largestFirst lists the names of networks by how much they have published.
func largestFirst(by map[string]*Network) []string {
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b].Published, by[a].Published), cmp.Compare(a, b))
	})
}

package bench

import (
	"context"
	"slices"
	"time"
)

// Median of an even number is the mean of the two in the middle.
func Median(list []float64) float64 { return median(list, func(f float64) float64 { return f }) }

// Quantiles in microseconds.
func Quantiles(list []time.Duration, at ...float64) []float64 { return quantiles(list, at...) }

// OpenLoop sends n messages with send, which says how each arrives, and is how long each took.
func OpenLoop(ctx context.Context, n int, wait bool, send func(ctx context.Context, i int, arrived func(i int)) error) ([]time.Duration, error) {
	l := newLoop(n)
	err := l.run(ctx, wait, func(ctx context.Context, i int) error { return send(ctx, i, l.arrived) })
	return l.times(), err
}

// Medians of what rounds took.
func Medians(count int, work, ceiling []Cost, bytes int64) Result {
	r := rounds{count: count, work: work, ceiling: ceiling, bytes: bytes}
	return r.result()
}

// SizesOf are those of an axis, up to a most.
func SizesOf(axis string, most int) []int {
	i := slices.IndexFunc(Axes(), func(a Axis) bool { return a.Name == axis })
	return Axes()[i].sizes(most)
}

// EvenScope is a scope whose partitions lie equally on so many nodes, and a key of each of these.
func EvenScope(nodes int) (scope string, keys []string) { return evenScope(nodes) }

// PointOf is what a size took for so many messages, over what the least took.
func PointOf(costs []Cost, messages int, least []Cost, leastMessages int) Point {
	return point(costs, messages, least, leastMessages)
}

package bench

import (
	"context"
	"slices"
	"time"
)

// points are those of all works, each from the least size to the greatest.
func points(ctx context.Context, axis Axis, all []*grown, cfg *GrowthConfig, each func(Point) error) error {
	durability, err := all[0].arena.meter.durability(ctx)
	if err != nil {
		return err
	}
	server := all[0].arena.client.Server()
	for i := range all[0].stepsOf {
		for _, g := range all {
			s := &g.stepsOf[i]
			p := point(g.costs[i], s.messages(), all[0].costs[i], all[0].stepsOf[i].messages())
			p.Work, p.Axis, p.At, p.Call = axis.Name+"-"+s.work, axis.What, g.size, s.each
			if g.bytes > 0 {
				p.ServerBytes = &g.bytes
			}
			if len(g.times[i]) >= minQuantile {
				q := quantiles(g.times[i], 0.5, 0.99)
				p.P50, p.P99 = &q[0], &q[1]
			}
			p.Size, p.ServerName, p.Durability = cfg.Size, server.Name+" "+server.Version, durability
			if err := each(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// minQuantile is how many calls there must be for quantiles to say something of them.
const minQuantile = 10

// Point is what a work costs at one size. Costs are medians over the rounds, for one message.
type Point struct {
	// Work is the axis, and what is done.
	Work string `json:"work"`
	// Axis says what grows, and At how much of it there is.
	Axis string `json:"axis"`
	At   int    `json:"at"`
	// Growth is how many times the server's CPU time for a message is that at the least size, the median of the rounds, with
	// the least and the most.
	Growth    float64 `json:"growth"`
	GrowthMin float64 `json:"growth_min"`
	GrowthMax float64 `json:"growth_max"`

	PerSecond float64 `json:"per_second"`
	// P50 and P99 are of a call of Call messages, or, when messages are sent at Rate a second, of a message, from when it was to
	// be sent to its handler; in microseconds. Null: there were too few calls.
	P50  *float64 `json:"p50_us"`
	P99  *float64 `json:"p99_us"`
	Call int      `json:"messages_per_call"`

	Server float64 `json:"server_us_per_message"`
	Client float64 `json:"client_us_per_message"`
	Allocs float64 `json:"allocs_per_message"`
	// ServerBytes is the memory that one of what grows takes at the server, what belongs to it included: an entry with its message, a
	// group with a member; of lanes it is that of a job. Null: it is not known.
	ServerBytes *float64 `json:"server_bytes_each"`

	Rounds     int    `json:"rounds"`
	Count      int    `json:"count"`
	Size       int    `json:"size"`
	ServerName string `json:"server"`
	Durability string `json:"durability"`
}

// point makes the medians. Least is what the least size took for so many messages, round for round.
func point(costs []Cost, messages int, least []Cost, leastMessages int) Point {
	n := float64(messages)
	ratios := make([]float64, len(costs))
	for i := range costs {
		ratios[i] = float64(costs[i].Server) / n / (float64(max(least[i].Server, time.Microsecond)) / float64(leastMessages))
	}
	itself := func(f float64) float64 { return f }
	return Point{
		Growth: median(ratios, itself), GrowthMin: slices.Min(ratios), GrowthMax: slices.Max(ratios),
		PerSecond: median(costs, func(c Cost) float64 { return n / max(c.Elapsed, time.Nanosecond).Seconds() }),
		Server:    median(costs, func(c Cost) float64 { return c.Server.Seconds() * 1e6 / n }),
		Client:    median(costs, func(c Cost) float64 { return c.Client.Seconds() * 1e6 / n }),
		Allocs:    median(costs, func(c Cost) float64 { return float64(c.Allocs) / n }),
		Rounds:    len(costs), Count: messages,
	}
}

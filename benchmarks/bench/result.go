package bench

import (
	"slices"
	"time"
)

// Result is what a work came to. Rates and costs are medians over the rounds; what is per message is in microseconds of CPU
// time, or in bytes.
type Result struct {
	Work      string  `json:"work"`
	PerSecond float64 `json:"per_second"`
	// Ceiling names what it is compared with.
	Ceiling          string  `json:"ceiling"`
	CeilingPerSecond float64 `json:"ceiling_per_second"`
	// Ratio is that of the two medians; RatioMin and RatioMax are the least and the most of a round.
	Ratio    float64 `json:"ratio"`
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
	// Quantiles of the time that a message takes at Rate messages a second, of all rounds together, and of the same with raw
	// commands. Null: nothing of this work is waited for.
	P50        *float64 `json:"p50_us"`
	P99        *float64 `json:"p99_us"`
	P999       *float64 `json:"p999_us"`
	CeilingP50 *float64 `json:"ceiling_p50_us"`
	CeilingP99 *float64 `json:"ceiling_p99_us"`

	Server        float64 `json:"server_us_per_message"`
	CeilingServer float64 `json:"ceiling_server_us_per_message"`
	Client        float64 `json:"client_us_per_message"`
	Allocs        float64 `json:"allocs_per_message"`
	// ServerBytes is the memory of the keys that hold the messages, when all are there.
	ServerBytes float64 `json:"server_bytes_per_message"`

	Rounds      int    `json:"rounds"`
	Count       int    `json:"count"`
	Size        int    `json:"size"`
	Concurrency int    `json:"concurrency"`
	ServerName  string `json:"server"`
	Durability  string `json:"durability"`
	// EachRound is what the medians are of.
	EachRound []Round `json:"each_round"`
}

// Round is what a work and its ceiling came to in one round, in the units of Result.
type Round struct {
	PerSecond        float64  `json:"per_second"`
	CeilingPerSecond float64  `json:"ceiling_per_second"`
	Server           float64  `json:"server_us_per_message"`
	CeilingServer    float64  `json:"ceiling_server_us_per_message"`
	Client           float64  `json:"client_us_per_message"`
	Allocs           float64  `json:"allocs_per_message"`
	P50              *float64 `json:"p50_us"`
	P99              *float64 `json:"p99_us"`
	CeilingP50       *float64 `json:"ceiling_p50_us"`
	CeilingP99       *float64 `json:"ceiling_p99_us"`
}

// rounds are what a work and its ceiling took, one for one.
type rounds struct {
	count           int
	work, ceiling   []Cost
	bytes           int64 // the most of a round
	times, rawTimes []time.Duration
}

// each is every round by itself.
func (r *rounds) each() []Round {
	n := float64(r.count)
	rate := func(c Cost) float64 { return n / max(c.Elapsed, time.Nanosecond).Seconds() }
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 / n }
	list := make([]Round, len(r.work))
	for i, w := range r.work {
		c := r.ceiling[i]
		list[i] = Round{
			PerSecond: rate(w), CeilingPerSecond: rate(c), Server: us(w.Server), CeilingServer: us(c.Server),
			Client: us(w.Client), Allocs: float64(w.Allocs) / n,
		}
		if loop := len(r.times) / len(list); loop > 0 {
			q := quantiles(r.times[i*loop:(i+1)*loop], 0.5, 0.99)
			raw := quantiles(r.rawTimes[i*loop:(i+1)*loop], 0.5, 0.99)
			list[i].P50, list[i].P99, list[i].CeilingP50, list[i].CeilingP99 = &q[0], &q[1], &raw[0], &raw[1]
		}
	}
	return list
}

// result makes the medians.
func (r *rounds) result() Result {
	each := r.each()
	out := Result{
		PerSecond:        median(each, func(r Round) float64 { return r.PerSecond }),
		CeilingPerSecond: median(each, func(r Round) float64 { return r.CeilingPerSecond }),
		Server:           median(each, func(r Round) float64 { return r.Server }),
		CeilingServer:    median(each, func(r Round) float64 { return r.CeilingServer }),
		Client:           median(each, func(r Round) float64 { return r.Client }),
		Allocs:           median(each, func(r Round) float64 { return r.Allocs }),
		ServerBytes:      float64(r.bytes) / float64(r.count),
		Rounds:           len(each),
		Count:            r.count,
		EachRound:        each,
	}
	out.Ratio = out.PerSecond / out.CeilingPerSecond
	ratios := make([]float64, len(each))
	for i := range each {
		ratios[i] = each[i].PerSecond / each[i].CeilingPerSecond
	}
	out.RatioMin, out.RatioMax = slices.Min(ratios), slices.Max(ratios)
	if len(r.times) > 0 {
		q := quantiles(r.times, 0.5, 0.99, 0.999)
		raw := quantiles(r.rawTimes, 0.5, 0.99)
		out.P50, out.P99, out.P999, out.CeilingP50, out.CeilingP99 = &q[0], &q[1], &q[2], &raw[0], &raw[1]
	}
	return out
}

// median of an even number is the mean of the two in the middle.
func median[T any](list []T, of func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		values[i] = of(v)
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

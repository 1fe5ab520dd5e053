package report

import (
	"fmt"

	"github.com/echomq/pipeline/benchmarks/bench"
)

// goals are those of publishing, consuming and jobs, with what was measured. What was not measured is an error.
func goals(ours, peers *Results) (list []goal, err error) {
	work := func(name string, of func(r *bench.Result, round *bench.Round) float64) Spread {
		for i := range ours.Works {
			if r := &ours.Works[i]; r.Work == name {
				return spread(r.EachRound, func(round bench.Round) float64 { return of(r, &round) })
			}
		}
		err = fmt.Errorf("report: work %s has not been measured: make bench", name)
		return Spread{}
	}
	ratio := func(name string) Spread {
		return work(name, func(_ *bench.Result, r *bench.Round) float64 { return r.PerSecond / r.CeilingPerSecond })
	}
	cpu := func(name string) Spread {
		return work(name, func(_ *bench.Result, r *bench.Round) float64 { return r.Server / r.CeilingServer })
	}
	allocs := func(name string) Spread {
		return work(name, func(_ *bench.Result, r *bench.Round) float64 { return r.Allocs })
	}
	memory := func(name string) Spread {
		return work(name, func(r *bench.Result, _ *bench.Round) float64 { return r.ServerBytes / float64(r.Size) })
	}
	p50 := func(_ *bench.Result, r *bench.Round) float64 { return *r.P50 / *r.CeilingP50 }
	p99 := func(_ *bench.Result, r *bench.Round) float64 { return *r.P99 / *r.CeilingP99 }
	matches := Matches(peers.Turns)
	match := func(name string) Spread {
		for i := range matches {
			if matches[i].Match == name {
				return matches[i].Ratio(1)
			}
		}
		err = fmt.Errorf("report: match %q has not been measured: make bench-peers", name)
		return Spread{}
	}
	envelope := func(name string, of func(ours, library Benchmark) float64) Spread {
		mine, library := ours.benchmark(name+"/ours"), ours.benchmark(name+"/library")
		if len(mine) == 0 || len(mine) != len(library) {
			err = fmt.Errorf("report: benchmark %s has not been measured: make bench", name)
			return Spread{}
		}
		values := make([]float64, len(mine))
		for i := range mine {
			values[i] = of(mine[i], library[i])
		}
		return spreadOf(values)
	}
	faster := func(ours, library Benchmark) float64 { return library.Ns / ours.Ns }
	own := func(ours, _ Benchmark) float64 { return ours.Allocs }
	return []goal{
		{"publish", "publish, one stream", "P", 0.75, false, true, ratio("stream-publish")},
		{"publish-2", "publish, two streams", "P", 0.85, false, false, ratio("stream-publish-2")},
		{"publish-cpu", "the server's CPU for it, one stream", "P", 1.25, true, false, cpu("stream-publish")},
		{"publish-cpu", "the server's CPU for it, two streams", "P", 1.25, true, false, cpu("stream-publish-2")},
		{"append", "append, awaited, 128 goroutines", "P", 0.45, false, true, ratio("stream-append")},
		{"pack-publish", "publish in packs of 100", "P", 4, false, true, ratio("pack-publish")},
		{"consume", "group consume and ack, fenced", "C", 0.80, false, true, ratio("stream-consume")},
		{"pack-consume", "group consume in packs of 100", "C", 4, false, true, ratio("pack-consume")},
		{"both", "both at once, one stream", "E", 0.85, false, true, ratio("stream")},
		{"both-2", "both at once, two streams", "E", 0.95, false, false, ratio("stream-2")},
		{"range", "range, decoded", "`XRANGE` of 1,000", 0.45, false, true, ratio("range")},
		{"range", "replay, decoded", "`XRANGE` of 1,000", 0.45, false, false, ratio("replay")},
		{"projection", "projection", "`XRANGE` of 1,000", 0.45, false, false, ratio("projection")},
		{"redisstream", "end to end, both at once", "watermill-redisstream", 13, false, true, match("both at once, watermill-redisstream")},
		{"nats", "end to end, both at once", "NATS JetStream, in memory", 2, false, true, match("both at once, NATS JetStream")},
		{"nats-pack", "end to end, both at once, in packs of 100", "NATS JetStream, in memory", 8, false, true, match("both at once, in packs of 100, NATS JetStream")},
		{"latency", "latency at 1,000 a second, p50", "two raw round trips", 2, true, true, work("stream", p50)},
		{"latency", "latency at 1,000 a second, p99", "two raw round trips", 8, true, true, work("stream", p99)},
		{"enqueue", "jobs, enqueue from 16 goroutines", "asynq", 3, false, true, match("enqueue, 16 goroutines")},
		{"drain", "jobs, drain, 10 at once", "asynq", 12, false, true, match("drain, 10 at once")},
		{"drain", "jobs, drain, 100 at once", "asynq", 12, false, false, match("drain, 100 at once")},
		{"river", "jobs, drain, 100 at once", "River, tuned", 6, false, true, match("drain against River, 100 at once")},
		{"envelope", "envelope, encode", "msgpack/v5 as it comes", 10, false, true, envelope("Encode", faster)},
		{"envelope", "envelope, decode", "msgpack/v5 as it comes", 10, false, true, envelope("Decode", faster)},
		{"envelope", "allocations to encode beside the output", "", 0, true, false, envelope("Encode", own)},
		{"envelope", "allocations to decode", "", 0, true, false, envelope("Decode", own)},
		{"allocs", "allocations a message, publish", "", 2, true, false, allocs("stream-publish")},
		{"allocs", "allocations a message, consume", "", 8, true, false, allocs("stream-consume")},
		{"allocs", "allocations a message, publish in packs of 100", "", 1.2, true, false, allocs("pack-publish")},
		{"allocs", "allocations a message, consume in packs of 100", "", 1.2, true, false, allocs("pack-consume")},
		{"memory", "server memory, one entry a message", "payload bytes", 1.6, true, true, memory("stream-publish")},
		{"memory", "server memory, packs with zstd of data like JSON", "payload bytes", 0.4, true, true, memory("pack-zstd")},
	}, err
}

// benchmark is all runs of a name.
func (r *Results) benchmark(name string) (list []Benchmark) {
	for _, b := range r.Benchmarks {
		if b.Name == name {
			list = append(list, b)
		}
	}
	return list
}

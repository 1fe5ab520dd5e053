package projection_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkProjection compares a table with a plain group whose handler does nothing, and with a plain loop that reads 2048
// messages and the fields of their keys, and sets these, on the same 100,000 messages of 1,000 or of as many keys. Each iteration
// is one round of all; the metrics are medians, and those of the ratios of each round. What it costs this process of CPU time, a
// busy machine blurs less than what it takes.
func BenchmarkProjection(b *testing.B) {
	for _, keys := range []int{1000, 100_000} {
		b.Run("keys="+strconv.Itoa(keys), func(b *testing.B) {
			const n = 100_000
			s := newStage(b, tiertest.Private(b, tiertest.Valkey))
			s.append(0, n, keys, 1)
			metrics := map[string][]float64{}
			add := func(name string, v float64) { metrics[name] = append(metrics[name], v) }
			for round := range b.N {
				loop := took(b, func() { s.loop(n, keys, round) })
				group := s.took(s.group(n, round))
				table := s.took(s.folded(n, round))
				add("group/s", n/group.elapsed)
				add("loop/s", n/loop.elapsed)
				add("table/s", n/table.elapsed)
				add("table/group", group.elapsed/table.elapsed)
				add("table/loop", loop.elapsed/table.elapsed)
				add("group-cpu-us", group.cpu*1e6/n)
				add("table-cpu-us", table.cpu*1e6/n)
			}
			for name, list := range metrics {
				slices.Sort(list)
				b.ReportMetric(list[len(list)/2], name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cost is what some work took, in seconds: of CPU time, of this process.
type cost struct{ elapsed, cpu float64 }

func took(b testing.TB, work func()) cost {
	cpu := func() float64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	before, began := cpu(), time.Now()
	work()
	return cost{elapsed: time.Since(began).Seconds(), cpu: cpu() - before}
}

// took runs until done is closed.
func (s *stage) took(p runner, done chan struct{}) cost {
	var r *running
	c := took(s.t, func() {
		r = start(s.t, p)
		<-done
	})
	require.NoError(s.t, r.stop())
	return c
}

// loop is what a table asks of the server at least, one call after another.
func (s *stage) loop(n, keys, round int) {
	const batch = 2048
	ctx, log, state := s.t.Context(), s.addr.LogKey(), tier.StateKey(s.addr.Scope, "loop."+strconv.Itoa(round))
	do := func(key string, cmd rueidis.Completed) rueidis.RedisMessage {
		m, err := s.client.Do(ctx, key, cmd)
		require.NoError(s.t, err)
		return m
	}
	last := "0-0"
	for at := 0; at < n; {
		read := do(log, s.client.B().Xread().Count(batch).Streams().Key(log).Id(last).Build())
		streams, err := read.AsXRead()
		require.NoError(s.t, err)
		entries := streams[log]
		var fields, sets []string
		seen := map[string]bool{}
		for range entries {
			if key := keyOf(at, keys); !seen[key] {
				seen[key] = true
				fields, sets = append(fields, key), append(sets, key, "1")
			}
			at++
		}
		last = entries[len(entries)-1].ID
		do(state, s.client.B().Hmget().Key(state).Field(fields...).Build())
		do(state, s.client.B().Arbitrary("HSET").Keys(state).Args(sets...).Build())
	}
}

func (s *stage) group(n, round int) (runner, chan struct{}) {
	g, err := stream.NewGroup(s.client, stream.GroupConfig{Address: s.addr.String(), Name: "g" + strconv.Itoa(round), Start: stream.Head()})
	require.NoError(s.t, err)
	done, left := make(chan struct{}), atomic.Int64{}
	left.Store(int64(n))
	c, err := consumer.New(consumer.Group(g), func(context.Context, *consumer.Delivery) error {
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	}, consumer.Config{})
	require.NoError(s.t, err)
	return c, done
}

func (s *stage) folded(n, round int) (runner, chan struct{}) {
	done, left := make(chan struct{}), n
	p, err := projection.NewTable(s.client, projection.TableConfig[int]{
		Config: projection.Config{Address: s.addr.String(), Name: "p" + strconv.Itoa(round)},
		Fold: func(sum int, _ *consumer.Delivery) (int, error) {
			if left--; left == 0 {
				close(done)
			}
			return sum + 1, nil
		},
	})
	require.NoError(s.t, err)
	return p, done
}

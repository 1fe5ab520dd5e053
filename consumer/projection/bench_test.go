package projection_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkProjection compares a table with a plain group whose handler does nothing, on the same 100,000 messages of 1,000 or
// of as many keys. Each iteration is one round of both; the metrics are medians, and that of the ratios of each round.
func BenchmarkProjection(b *testing.B) {
	for _, keys := range []int{1000, 100_000} {
		b.Run("keys="+strconv.Itoa(keys), func(b *testing.B) {
			const n = 100_000
			s := newStage(b, tiertest.Private(b, tiertest.Valkey))
			s.append(0, n, keys, 1)
			var group, table, ratio []float64
			for round := range b.N {
				consumed, handled := s.group(n, round)
				g := s.rate(n, consumed, handled)
				folds, folded := s.folded(n, round)
				p := s.rate(n, folds, folded)
				group, table, ratio = append(group, g), append(table, p), append(ratio, p/g)
			}
			for name, list := range map[string][]float64{"group/s": group, "table/s": table, "ratio": ratio} {
				slices.Sort(list)
				b.ReportMetric(list[len(list)/2], name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rate runs until done is closed.
func (s *stage) rate(n int, p runner, done chan struct{}) float64 {
	began := time.Now()
	r := start(s.t, p)
	<-done
	took := time.Since(began)
	require.NoError(s.t, r.stop())
	return float64(n) / took.Seconds()
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

package consumer_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The server has no persistence; each iteration is one message, from a group with everything unread to nothing pending. What
// it costs this process of CPU time, a busy machine blurs less than what it takes.
func BenchmarkConsumer(b *testing.B) {
	for _, bc := range []struct {
		name  string
		pack  int
		order consumer.Order
	}{{"plain", 1, consumer.None}, {"pack=100", 100, consumer.None}, {"plain/key", 1, consumer.ByKey}, {"pack=100/key", 100, consumer.ByKey}} {
		b.Run(bc.name, func(b *testing.B) {
			s := newStage(b, tiertest.Private(b, tiertest.Valkey))
			s.append(b.N, bc.pack)
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			handler := func(context.Context, *consumer.Delivery) error {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := processTime(b)
			r := s.run(s.source(), handler, consumer.Config{Order: bc.order})
			<-done
			b.StopTimer()
			b.ReportMetric(float64((processTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/msg")
			r.stop()
			if err := r.wait(patience); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// processTime is the CPU time that this process has used.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sourcegraph/conc/pool"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkWaiting is what an append costs the server when so many readers of a group wait at the log, with raw commands: one at a
// time, and who has got an entry waits again.
func BenchmarkWaiting(b *testing.B) {
	for _, readers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			client := tiertest.Dial(b, tiertest.Private(b, tiertest.Valkey))
			a, err := enter(b.Context(), client, DefaultSize, 0)
			require.NoError(b, err)
			key := a.address().LogKey()
			_, err = a.wire.ask(b.Context(), "XGROUP", "CREATE", key, rawGroup, "0", "MKSTREAM")
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			got := make(chan struct{})
			p := pool.New().WithErrors()
			for i := range readers {
				w, err := dial(ctx, client, key)
				require.NoError(b, err)
				defer w.Close()
				p.Go(func() error {
					for {
						if _, err := w.ask(ctx, "XREADGROUP", "GROUP", rawGroup, fmt.Sprint("c", i), "COUNT", "100", "BLOCK", "0", "STREAMS", key, ">"); err != nil {
							return err
						}
						got <- struct{}{}
					}
				})
			}
			one := func(ctx context.Context) error {
				_, err := a.wire.ask(ctx, "XADD", key, "*", "m", string(a.data))
				<-got
				return err
			}
			require.NoError(b, one(ctx))
			cost, err := a.meter.Measure(ctx, func(ctx context.Context) error {
				for range b.N {
					if err := one(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			require.NoError(b, err)
			b.ReportMetric(float64(cost.Server.Microseconds())/float64(b.N), "server-us/op")
			stop()
			require.ErrorIs(b, p.Wait(), context.Canceled)
			require.NoError(b, errors.Join(a.delete(b.Context(), key), a.leave(b.Context())))
		})
	}
}

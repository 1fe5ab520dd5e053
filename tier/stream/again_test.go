package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestIDsOfANewLog (B90): a log that is deleted and begun again in the same millisecond, by whoever, gives no id that was
// given before.
func TestIDsOfANewLog(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		plain, packed := stream.WriterConfig{Brand: "ORD"}, stream.WriterConfig{Brand: "ORD", Pack: 2}
		given := map[codec.ID]bool{}
		for i := range 200 {
			for _, cfg := range []stream.WriterConfig{plain, packed} {
				for range 2 {
					w := f.writer(cfg) // who knows of no id that was given
					var id codec.ID
					var err error
					if i%4 == 3 {
						id, _, err = w.AppendOnce(f.ctx, tiertest.Scope(t), stream.MinWindow, codec.Message{})
					} else {
						id, err = w.Append(f.ctx, codec.Message{Key: fmt.Sprint(i)})
					}
					require.NoError(t, err)
					require.False(t, given[id], "%s was given again", id)
					given[id] = true
				}
				f.do("DEL", f.log())
			}
		}
	})
}

// TestIDsOfALogThatIsDeletedUnderLoad (B90): packs run ahead of the clock, several calls are in flight, two writers are at work, and the log is deleted
// again and again: nobody is given an id that was given before.
func TestIDsOfALogThatIsDeletedUnderLoad(t *testing.T) {
	for _, pack := range []int{1, 20, 4096} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				var mu sync.Mutex
				given := map[codec.ID]bool{}
				ctx, stop := context.WithCancel(f.ctx)
				var crew conc.WaitGroup
				for range 2 {
					w := f.writer(stream.WriterConfig{Brand: "ORD", Pack: pack})
					for range 8 {
						crew.Go(func() {
							for ctx.Err() == nil {
								ids, err := w.AppendBatch(f.ctx, messages(pack))
								if err != nil {
									t.Error(err)
									return
								}
								mu.Lock()
								if given[ids[0]] {
									t.Errorf("%s was given again", ids[0])
								}
								given[ids[0]] = true
								mu.Unlock()
							}
						})
					}
				}
				calls := func() int {
					mu.Lock()
					defer mu.Unlock()
					return len(given)
				}
				for n := 0; n < 100 || calls() < 100 && f.ctx.Err() == nil; n++ {
					f.do("DEL", f.log())
				}
				stop()
				crew.Wait()
				require.GreaterOrEqual(t, calls(), 100)
			})
		})
	}
}

package retention

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// TestAheadIsBounded: of messages of a MiB few are read ahead, of small ones some batches.
func TestAheadIsBounded(t *testing.T) {
	for size, most := range map[int]int{1 << 20: aheadBatches + 2, 10: (aheadBatches + 2) * aheadMessages} {
		synctest.Test(t, func(t *testing.T) {
			read := 0
			records := ahead(t.Context(), func(context.Context) iter.Seq2[codec.Record, error] {
				return func(yield func(codec.Record, error) bool) {
					for yield(codec.Record{Message: codec.Message{Data: make([]byte, size)}}, nil) {
						read++
					}
				}
			})
			for range records {
				synctest.Wait()
				require.LessOrEqual(t, read, most)
				require.Greater(t, read, most/2)
				break
			}
		})
	}
}

// TestAheadOfACancelledReader: what is left out when the context ends is not taken for the end of what there is.
func TestAheadOfACancelledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		const sent = 10 * aheadMessages
		records := ahead(ctx, func(context.Context) iter.Seq2[codec.Record, error] {
			return func(yield func(codec.Record, error) bool) {
				for range sent {
					if !yield(codec.Record{}, nil) {
						return
					}
				}
			}
		})
		cause := errors.New("enough")
		got, last := 0, error(nil)
		for _, err := range records {
			if last = err; err == nil {
				got++
			}
			synctest.Wait()
			cancel(cause)
		}
		require.Less(t, got, sent)
		require.ErrorIs(t, last, cause)
	})
}

package stream_test

import (
	"fmt"
	"testing"

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

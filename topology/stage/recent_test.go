package stage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/topology/stage"
)

// TestRecent: what stages remember ends when it is to, to the millisecond, and what they gather has its bounds.
func TestRecent(t *testing.T) {
	const within = stage.Duration(10 * time.Millisecond)
	half := strings.Repeat("x", 300<<10)
	tests := []struct {
		name string
		cfg  stage.Config
		in   []string // "ms key", and the data, which by default is the ms
		want []string // of each: "stream key data", or nothing
	}{
		{"dedupe", stage.Config{To: "s/out", Dedupe: &stage.Dedupe{Key: "key", Within: within}}, []string{"100 a", "109 a", "110 a", "115 b", "120 a"}, []string{"out a 100", "", "out a 110", "out b 115", "out a 120"}},
		{"throttle", stage.Config{To: "s/out", Throttle: &stage.Throttle{Count: 2, Per: within, Over: "s/over"}}, []string{"100 a", "101 b", "109 a", "110 a"}, []string{"out a 100", "out b 101", "over a 109", "out a 110"}},
		{"throttle forgets", stage.Config{To: "s/out", Throttle: &stage.Throttle{Count: 1, Per: within, Key: "key", MaxKeys: 2}}, []string{"100 a", "101 b", "102 c", "103 b", "104 a"}, []string{"out a 100", "out b 101", "out c 102", "", "out a 104"}},
		{"a batch that is old", stage.Config{To: "s/out", Batch: &stage.Batch{Size: 9, Within: within}}, []string{"100 a", "109 a", "110 a", "120 b"}, []string{"", "", "out a [100,109]", "out a [110]"}},
		{"too many batches", stage.Config{To: "s/out", Batch: &stage.Batch{Size: 9, Within: within, MaxOpen: 2}}, []string{"100 a", "101 b", "102 b", "103 c"}, []string{"", "", "", "out a [100]"}},
		{"a large batch", stage.Config{To: "s/out", Batch: &stage.Batch{Size: 9}}, []string{"100 a " + half, "101 a " + half, "102 b"}, []string{"", `out a ["` + half + `"]`, ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.From = "s/in"
			s, err := stage.NewTrial("s", tt.cfg, stage.TrialOptions{})
			require.NoError(t, err)
			defer s.Close()
			var got []string
			for _, line := range tt.in {
				parts := strings.SplitN(line, " ", 3)
				var r codec.Record
				_, err := fmt.Sscan(parts[0], &r.Addr.Ms)
				require.NoError(t, err)
				r.ID, r.Key, r.Data = codec.ID{1}, parts[1], []byte(parts[0])
				if len(parts) > 2 {
					r.Data = []byte(parts[2])
				}
				out := s.Try(t.Context(), r)
				require.NoError(t, out.Err)
				var all []string
				for _, o := range out.Outputs {
					all = append(all, strings.TrimPrefix(o.Target, "s/")+" "+o.Message.Key+" "+string(o.Message.Data))
				}
				got = append(got, strings.Join(all, ", "))
			}
			require.Equal(t, tt.want, got)
		})
	}
}

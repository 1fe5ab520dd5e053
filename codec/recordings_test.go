package codec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// What an earlier version wrote must be read for ever. The files are written once
// and never again: a new version adds its own beside them.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/recordings/*.bin")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 12)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			expected, err := os.ReadFile(strings.TrimSuffix(file, ".bin") + ".json")
			require.NoError(t, err)
			var want struct {
				Pack     bool          `json:"pack"`
				Messages []jsonMessage `json:"messages"`
			}
			require.NoError(t, json.Unmarshal(expected, &want))
			require.NotEmpty(t, want.Messages)

			got := make([]codec.Message, 1)
			if want.Pack {
				got, err = codec.DecodePack(nil, src)
				require.NoError(t, err)
			} else {
				got[0] = decode(t, src)
			}
			require.Len(t, got, len(want.Messages))
			for i := range got {
				requireSame(t, want.Messages[i].message(t), got[i])
			}
		})
	}
}

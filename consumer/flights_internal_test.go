package consumer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

// TestFlights compares with a map, whether the index is made or not.
func TestFlights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s flights
		twin := map[codec.EntryID]*flight{}
		anyEntry := func() codec.EntryID { return entryAt(rapid.IntRange(1, 20).Draw(t, "entry")) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := anyEntry()
				if twin[e] != nil {
					t.Skip("it is there")
				}
				twin[e] = &flight{entry: e}
				s.add(twin[e])
				require.True(t, twin[e].here)
			},
			"remove": func(t *rapid.T) {
				e := anyEntry()
				f := twin[e]
				if f == nil {
					t.Skip("it is not there")
				}
				delete(twin, e)
				s.remove(f)
				require.False(t, f.here)
			},
			"of": func(t *rapid.T) {
				e := anyEntry()
				require.Same(t, twin[e], s.of(e))
			},
			"unindex": func(*rapid.T) { s.unindex() },
			"": func(t *rapid.T) {
				require.Equal(t, len(twin), s.count())
				for _, f := range s.list {
					require.Same(t, twin[f.entry], f)
				}
			},
		})
	})
}

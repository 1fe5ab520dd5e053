package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier/stream"
)

// TestDecide (B70): what goes of a log by each policy, if nobody needs it; a bound in bytes is one in entries, of their mean weight.
func TestDecide(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name          string
		policy        stream.Retention
		length, bytes int64
		want          stream.Trim
	}{
		{"none", stream.Retention{}, 100, 100 * mib, stream.Trim{Keep: -1}},
		{"length", stream.Retention{MaxLength: 10}, 100, 100 * mib, stream.Trim{Keep: 10}},
		{"length, not reached", stream.Retention{MaxLength: 1000}, 100, 100 * mib, stream.Trim{Keep: 1000}},
		{"age", stream.Retention{MaxAge: time.Hour}, 100, 100 * mib, stream.Trim{Keep: -1, Age: time.Hour}},
		{"settled, exact", stream.Retention{Settled: true, Exact: true}, 100, 100 * mib, stream.Trim{Keep: -1, Settled: true, Exact: true}},
		{"bytes", stream.Retention{MaxBytes: 30 * mib}, 100, 100 * mib, stream.Trim{Keep: 30}},
		{"few huge ones below a max length", stream.Retention{MaxLength: 1000, MaxBytes: 50 * mib}, 100, 1000 * mib, stream.Trim{Keep: 5}},
		{"bytes, not reached", stream.Retention{MaxBytes: 100 * mib}, 100, 100 * mib, stream.Trim{Keep: -1}},
		{"bytes, not known", stream.Retention{MaxBytes: 1}, 100, 0, stream.Trim{Keep: -1}},
		{"one too large", stream.Retention{MaxBytes: mib}, 1, 10 * mib, stream.Trim{Keep: 1}},
		{"all too large", stream.Retention{MaxBytes: 1}, 100, 100 * mib, stream.Trim{Keep: 1}},
		{"length below bytes", stream.Retention{MaxLength: 3, MaxBytes: 50 * mib}, 100, 100 * mib, stream.Trim{Keep: 3}},
		{"empty", stream.Retention{MaxBytes: 1}, 0, 1000, stream.Trim{Keep: 1}},
		{"more than a double counts", stream.Retention{MaxBytes: 1 << 61}, 1 << 60, 1 << 62, stream.Trim{Keep: 1 << 59}},
		{"hard cap", stream.Retention{HardCap: 7}, 100, 100 * mib, stream.Trim{Keep: -1}},
		{"all", stream.Retention{MaxLength: 9, MaxAge: time.Minute, MaxBytes: mib, Settled: true, Exact: true, HardCap: 10}, 4, mib, stream.Trim{Keep: 9, Age: time.Minute, Settled: true, Exact: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, retention.Decide(tt.policy, tt.length, tt.bytes))
		})
	}
}

// TestForesee: of ten entries a minute apart and of 100 bytes each, what goes, what is held of it, and who holds what.
func TestForesee(t *testing.T) {
	start := time.UnixMilli(1_800_000_000_000)
	id := func(i int) codec.EntryID { return codec.FloorEntry(start.Add(time.Duration(i) * time.Minute)) }
	counted := map[codec.EntryID]int64{}
	for i := range 10 {
		counted[id(i)] = int64(i)
	}
	holds := func(name, why string, i int) stream.Holder { return stream.Holder{Name: name, Why: why, First: id(i)} }
	slow, fast, done := holds("slow", "pending", 4), holds("fast", "unread", 8), holds("done", "unread", 10)
	tests := []struct {
		name              string
		policy            stream.Retention
		holders           []stream.Holder
		goes, held, drops int64
		claims            map[string]int64 // entries by name
	}{
		{"nothing", stream.Retention{}, nil, 0, 0, 0, nil},
		{"length", stream.Retention{MaxLength: 3}, nil, 7, 0, 0, nil},
		{"age", stream.Retention{MaxAge: 5 * time.Minute}, nil, 5, 0, 0, nil},
		{"age of all", stream.Retention{MaxAge: time.Millisecond}, nil, 10, 0, 0, nil},
		{"age of none", stream.Retention{MaxAge: time.Hour}, nil, 0, 0, 0, nil},
		{"the stricter one", stream.Retention{MaxLength: 3, MaxAge: 5 * time.Minute}, nil, 7, 0, 0, nil},
		{"bytes", stream.Retention{MaxBytes: 200}, nil, 8, 0, 0, nil},
		{"settled by nobody", stream.Retention{Settled: true}, nil, 0, 0, 0, nil},
		{"settled", stream.Retention{Settled: true}, []stream.Holder{fast, slow, done}, 4, 0, 0, map[string]int64{"slow": 6, "fast": 2}},
		{"settled by all", stream.Retention{Settled: true}, []stream.Holder{done}, 10, 0, 0, nil},
		{"held", stream.Retention{MaxLength: 3}, []stream.Holder{fast, slow}, 4, 3, 0, map[string]int64{"slow": 6, "fast": 2}},
		{"held and capped", stream.Retention{MaxLength: 3, HardCap: 5}, []stream.Holder{fast, slow}, 4, 2, 1, map[string]int64{"slow": 6, "fast": 2}},
		{"capped by nothing else", stream.Retention{HardCap: 2}, []stream.Holder{slow}, 0, 0, 8, map[string]int64{"slow": 6}},
		{"below the cap", stream.Retention{HardCap: 12}, []stream.Holder{slow}, 0, 0, 0, map[string]int64{"slow": 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := stream.Holdings{Now: start.Add(10 * time.Minute), Length: 10, Bytes: 1000, First: id(0), Last: id(9), Holders: tt.holders}
			o := retention.Foresee(tt.policy, h, counted)
			require.Equal(t, retention.Part{Entries: tt.goes, Bytes: 100 * tt.goes}, o.Goes)
			require.Equal(t, retention.Part{Entries: tt.held, Bytes: 100 * tt.held}, o.Held)
			require.Equal(t, retention.Part{Entries: tt.drops, Bytes: 100 * tt.drops}, o.Drops)
			require.False(t, o.AtLeast)
			require.Len(t, o.Claims, len(tt.claims))
			for i, c := range o.Claims {
				require.Equal(t, retention.Part{Entries: tt.claims[c.Name], Bytes: 100 * tt.claims[c.Name]}, c.Part)
				require.Equal(t, h.Now.Sub(c.First.Time()), c.Age)
				require.True(t, i == 0 || c.First.Compare(o.Claims[i-1].First) >= 0)
			}
		})
	}
	t.Run("empty", func(t *testing.T) {
		o := retention.Foresee(stream.Retention{MaxLength: 1, Settled: true, HardCap: 1}, stream.Holdings{Holders: []stream.Holder{slow}}, nil)
		require.Zero(t, o.Goes)
		require.Zero(t, o.Held)
		require.Empty(t, o.Claims)
	})
}

package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Nothing is asked for ahead where something else comes first, or nothing may be on its way.
func TestNothingAhead(t *testing.T) {
	for name, is := range map[string]func(f *fetcher, stop func()){
		"the last read brought less":    func(f *fetcher, _ func()) { f.plenty = false },
		"a call was refused":            func(f *fetcher, _ func()) { f.fenced.Store(true) },
		"what is parked is not known":   func(f *fetcher, _ func()) { f.cfg.Order = ByKey; f.uncertain.Store(true) },
		"the stop has begun":            func(_ *fetcher, stop func()) { stop() },
		"a look is due":                 func(f *fetcher, _ func()) { f.look.next = time.Time{} },
		"a parked entry is due":         func(f *fetcher, _ func()) { f.desk.t.dueBy(time.Unix(1, 0)) },
		"what was handed back is due":   func(f *fetcher, _ func()) { f.desk.t.due = time.Unix(1, 0) },
		"there is no room beside it":    func(f *fetcher, _ func()) { f.size = size{messages: 4, bytes: 1} },
		"there is room for few of them": func(f *fetcher, _ func()) { f.size = size{messages: 1, bytes: 600 << 10} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{MaxInFlight: 512}
			cfg.setDefaults()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			f := &fetcher{
				run:  &run{cfg: cfg, fetching: ctx, desk: newDesk(t.Context(), cfg.MaxInFlight, cfg.MaxInFlightBytes, policy{}, None, func(int) {})},
				pace: newPace(&cfg), hands: 8, plenty: true, size: size{messages: 1, bytes: 1},
				ahead: (*struct{ aheadReader })(nil),
			}
			f.look.next = time.Now().Add(time.Hour)
			require.Equal(t, 128, f.next(128), "of 384 that there is room for")
			is(f, stop)
			require.Zero(t, f.next(128))
		})
	}
}

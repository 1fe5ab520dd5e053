package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/queue"
)

// TestFoldRing: a minute has the place of the one a week before, of which nothing is left in it; what comes late for that counts no more.
func TestFoldRing(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	group := []any{queue.Ready, queue.Active, "a", "w", "", []string{""}, []int{40}}
	data := codec.Message{}
	require.NoError(t, codec.Msgpack[[]any]().Encode(&data, []any{group}))
	told := func(at time.Time) *consumer.Delivery {
		var d consumer.Delivery
		d.Type, d.Data, d.Format = queue.EventsType, data.Data, data.Format
		d.Addr.Ms = uint64(at.UnixMilli())
		return &d
	}
	var m Minute
	for _, step := range []struct {
		at    time.Time
		began time.Time
		n     int64
	}{
		{at, at.Truncate(time.Minute), 1},
		{at.Add(29 * time.Second), at.Truncate(time.Minute), 2},
		{at.Add(Kept), at.Add(Kept).Truncate(time.Minute), 1},
		{at, at.Add(Kept).Truncate(time.Minute), 1},
	} {
		var err error
		m, err = fold(m, told(step.at))
		require.NoError(t, err)
		require.Equal(t, step.began, m.At)
		require.Equal(t, map[queue.What]int64{queue.Started: step.n}, m.Counts)
		require.Equal(t, Span{step.n, time.Duration(step.n) * 40 * time.Millisecond, 40 * time.Millisecond}, m.Waited)
	}
	require.Equal(t, place(at), place(at.Add(Kept)))
	require.NotEqual(t, place(at), place(at.Add(time.Minute)))
}

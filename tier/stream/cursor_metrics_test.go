package stream_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestCursorMetrics: each cursor as the server has it, of several streams in one registry; a stream that is not there has none.
func TestCursorMetrics(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m, err := stream.NewCursorMetrics(f.client, f.address, f.addr().Scope+"/others")
		require.NoError(t, err)
		reg := prometheus.NewRegistry()
		reg.MustRegister(m)
		count, err := testutil.GatherAndCount(reg)
		require.NoError(t, err)
		require.Zero(t, count) // no stream yet

		f.append(f.writer(stream.WriterConfig{}), 10)
		owner := f.own(f.cursor("c", stream.Head(), time.Minute))
		leased := f.owned(owner, 5)
		require.NoError(t, owner.Advance(f.ctx, entriesOf(leased), []tier.Ending{
			{Entry: leased[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}},
			{Entry: leased[4].Entry, Deliveries: 1, Dead: []tier.Letter{{Index: -1, Reason: "no", Attempts: 1}}},
		}, stream.Expected{}))
		epoch, err := strconv.ParseFloat(f.row("c", "epoch"), 64)
		require.NoError(t, err)
		want := map[string]float64{
			"lag_entries": 5, "lag_estimated": 0, "parked_entries": 1, "dead_letters": 1, "owned": 1, "crashes": 0, "paused": 0, "epoch": epoch,
			"checkpoint_timestamp_seconds": float64(leased[4].Entry.Ms) / 1000,
		}
		have := f.cursorSeries(reg)
		require.Greater(t, have["oldest_unread_age_seconds"], 0.0)
		delete(have, "oldest_unread_age_seconds")
		require.Equal(t, want, have)
		require.NoError(t, owner.Release(f.ctx, nil, 0))
		require.NoError(t, owner.Leave(f.ctx))
		require.NoError(t, f.cursor("c", stream.Head(), time.Minute).Pause(f.ctx))
		have = f.cursorSeries(reg)
		require.Zero(t, have["owned"])
		require.Equal(t, 1.0, have["paused"])
		problems, err := testutil.GatherAndLint(reg)
		require.NoError(t, err)
		require.Empty(t, problems)

		list, err := stream.Cursors(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, leased[4].Entry, list[0].Checkpoint)
		require.Positive(t, list[0].OldestUnread.Compare(leased[4].Entry))
		require.NoError(t, f.cursor("c", stream.Head(), time.Minute).Resume(f.ctx))
		rest := f.owned(f.own(f.cursor("c", stream.Head(), time.Minute)), 5)
		require.Equal(t, rest[0].Entry, list[0].OldestUnread)
	})
	_, err := stream.NewCursorMetrics(nil, "shop/orders", "no address")
	require.Error(t, err)
}

// cursorSeries are the values of the metrics of the one cursor c.
func (f *fixture) cursorSeries(reg prometheus.Gatherer) map[string]float64 {
	f.t.Helper()
	families, err := reg.Gather()
	require.NoError(f.t, err)
	all := map[string]float64{}
	for _, family := range families {
		require.Len(f.t, family.GetMetric(), 1)
		series := family.GetMetric()[0]
		labels := map[string]string{}
		for _, pair := range series.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		require.Equal(f.t, map[string]string{"scope": f.addr().Scope, "stream": "orders", "cursor": "c"}, labels)
		all[strings.TrimPrefix(family.GetName(), "echomq_stream_cursor_")] = series.GetGauge().GetValue()
	}
	return all
}

package stream_test

import (
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

// TestGroupMetrics (B73, B153): lag and pending as the server has them, for every group, estimates marked.
func TestGroupMetrics(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m, err := stream.NewGroupMetrics(f.client, f.address)
		require.NoError(t, err)
		reg := prometheus.NewRegistry()
		reg.MustRegister(m)
		count, err := testutil.GatherAndCount(reg)
		require.NoError(t, err)
		require.Zero(t, count) // no group yet

		me := f.join(f.group("g", stream.Head(), time.Minute))
		f.append(f.writer(stream.WriterConfig{}), 10)
		leased := f.read(me, 5)
		require.NoError(t, me.Commit(f.ctx, []tier.Ending{{Entry: leased[4].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}}}))
		labels := `{group="g",scope="` + f.addr().Scope + `",stream="orders"} `
		want := `
# HELP echomq_stream_group_lag_entries Entries that the group was not given yet; a pack is one. Use max over processes.
# TYPE echomq_stream_group_lag_entries gauge
echomq_stream_group_lag_entries` + labels + `5
# HELP echomq_stream_group_lag_estimated 1 when the server cannot tell the lag, which then is at most what lag_entries says.
# TYPE echomq_stream_group_lag_estimated gauge
echomq_stream_group_lag_estimated` + labels + `0
# HELP echomq_stream_group_parked_entries Entries that failed and wait to be tried again. Use max over processes.
# TYPE echomq_stream_group_parked_entries gauge
echomq_stream_group_parked_entries` + labels + `1
# HELP echomq_stream_group_pending_entries Entries given out and not settled. Use max over processes.
# TYPE echomq_stream_group_pending_entries gauge
echomq_stream_group_pending_entries` + labels + `4
# HELP echomq_stream_group_paused 1 when the group is paused. Use max over processes.
# TYPE echomq_stream_group_paused gauge
echomq_stream_group_paused` + labels + `0
`
		names := []string{"echomq_stream_group_lag_entries", "echomq_stream_group_lag_estimated", "echomq_stream_group_parked_entries", "echomq_stream_group_pending_entries", "echomq_stream_group_paused"}
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...))
		require.NoError(t, f.group("g", stream.Head(), time.Minute).Pause(f.ctx))
		require.Error(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...), "it is paused now")
		problems, err := testutil.GatherAndLint(reg)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
	_, err := stream.NewGroupMetrics(nil, "no address")
	require.Error(t, err)
}

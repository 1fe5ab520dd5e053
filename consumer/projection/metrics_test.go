package projection_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestMetrics: each version as the server has it, and no other cursor of the stream.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	m, err := projection.NewMetrics(s.client, s.addr.String())
	require.NoError(t, err)
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	count, err := testutil.GatherAndCount(reg)
	require.NoError(t, err)
	require.Zero(t, count, "no stream yet")

	s.append(0, 30, 3, 1)
	other, err := stream.NewCursor(s.client, stream.CursorConfig{Address: s.addr.String(), Name: "tallies.9x", Start: stream.Head()})
	require.NoError(t, err)
	_, err = other.Join(t.Context(), "other")
	require.NoError(t, err)
	var logs bytes.Buffer // read once it has ended
	cfg := s.config(1)
	cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	first := start(t, s.table(cfg))
	s.settled(1)
	require.NoError(t, first.stop())
	require.Contains(t, logs.String(), `msg="projection is folded here" stream=`+s.addr.String()+" projection=tallies.1")
	require.Contains(t, logs.String(), "projection stopped")
	s.append(30, 12, 3, 1)
	second := start(t, s.table(s.config(2)))
	s.settled(2)

	have := map[string]map[string]float64{}
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, series := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range series.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			version := labels["version"]
			require.Equal(t, map[string]string{"scope": s.addr.Scope, "stream": "orders", "projection": "tallies", "version": version}, labels)
			if have[version] == nil {
				have[version] = map[string]float64{}
			}
			have[version][family.GetName()] = series.GetGauge().GetValue()
		}
	}
	const prefix = "echomq_projection_"
	require.Positive(t, have["1"][prefix+"oldest_unread_age_seconds"])
	delete(have["1"], prefix+"oldest_unread_age_seconds")
	at := func(version int) float64 { return float64(s.info(version).Checkpoint.Ms) / 1000 }
	require.Equal(t, map[string]map[string]float64{
		"1": {
			prefix + "lag_entries": 12, prefix + "lag_estimated": 0, prefix + "checkpoint_timestamp_seconds": at(1),
			prefix + "live": 1, prefix + "owned": 0,
		},
		"2": {
			prefix + "lag_entries": 0, prefix + "lag_estimated": 0, prefix + "checkpoint_timestamp_seconds": at(2),
			prefix + "live": 0, prefix + "owned": 1, prefix + "oldest_unread_age_seconds": 0,
		},
	}, have)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, second.stop())

	_, err = projection.NewMetrics(s.client, "no address")
	require.Error(t, err)
}

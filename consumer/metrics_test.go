package consumer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// sum adds up the series of a metric, those with a label of a value when one is given.
func sum(t testing.TB, reg prometheus.Gatherer, name, label, value string) (total float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	found := false
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			match := label == ""
			for _, pair := range series.GetLabel() {
				match = match || pair.GetName() == label && pair.GetValue() == value
			}
			if match {
				found = true
				total += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	require.True(t, found, "no series %s{%s=%q}", name, label, value)
	return total
}

// counted waits until the series of a metric add up to want: the server knows of a settle before its consumer does.
func counted(t testing.TB, reg prometheus.Gatherer, want int, name, label, value string) {
	t.Helper()
	tiertest.Eventually(t, patience, func() (bool, string) {
		got := sum(t, reg, name, label, value)
		return got == float64(want), fmt.Sprintf("%s{%s=%q} is %v, not %d", name, label, value, got, want)
	})
}

// B152: two consumers of one process share a registry; the names and helps are as Prometheus wants them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(10, 1)
	reg := prometheus.NewRegistry()
	seen := newTally()
	handler := func(_ context.Context, d *consumer.Delivery) error { seen.add(d.Key); return nil }
	for range 2 {
		s.run(s.source(), handler, consumer.Config{Registerer: reg})
	}
	seen.reach(t, 10, patience)
	s.settled(patience)
	tiertest.Eventually(t, patience, func() (bool, string) {
		return sum(t, reg, "echomq_consumer_deliveries_total", "group", groupName) == 10 &&
			sum(t, reg, "echomq_consumer_handler_seconds", "stream", "orders") == 10 &&
			sum(t, reg, "echomq_consumer_settled_entries_total", "scope", s.addr.Scope) == 10 &&
			sum(t, reg, "echomq_consumer_in_flight_messages", "group", groupName) == 0, "the metrics do not add up"
	})
	families, err := reg.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestCursorIsNoGroup: metrics and logs of a consumer of a cursor name it so.
func TestCursorIsNoGroup(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(3, 1)
	reg, logs := prometheus.NewRegistry(), &logBuffer{}
	seen := newTally()
	handler := func(_ context.Context, d *consumer.Delivery) error {
		seen.add(d.Key)
		return consumer.Permanent(errMailbox)
	}
	s.run(consumer.Exclusive(s.cursor()), handler, consumer.Config{Registerer: reg, Logger: logs.logger()})
	seen.reach(t, 3, patience)
	counted(t, reg, 3, "echomq_consumer_dead_messages_total", "cursor", groupName)
	counted(t, reg, 3, "echomq_consumer_deliveries_total", "group", "")
	require.Contains(t, logs.String(), " cursor="+groupName+" ")
	require.NotContains(t, logs.String(), "group")
}

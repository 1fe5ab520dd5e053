package projection

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Metrics collects what List says of the versions of the projections of streams. The numbers are the server's, so every process
// that collects them shows the same. stream.CursorMetrics has more about the cursor of each version.
type Metrics struct {
	client    *tier.Client
	addresses []tier.Address
}

// collectTime bounds one collection; one that takes longer yields nothing.
const collectTime = 5 * time.Second

// gauge is a metric of a version. Now is the server's time.
type gauge struct {
	desc  *prometheus.Desc
	value func(i *Info, now time.Time) float64
}

func newGauge(name, help string, value func(i *Info, now time.Time) float64) gauge {
	return gauge{prometheus.NewDesc("echomq_projection_"+name, help, []string{"scope", "stream", "projection", "version"}, nil), value}
}

var gauges = []gauge{
	newGauge("lag_entries", "Entries that are not folded; a pack is one. Use max over processes.",
		func(i *Info, _ time.Time) float64 { return float64(i.Lag) }),
	newGauge("lag_estimated", "1 when the server cannot tell the lag, which then is at most what lag_entries says.",
		func(i *Info, _ time.Time) float64 { return flag(!i.LagExact) }),
	newGauge("oldest_unread_age_seconds", "Age of the oldest entry that is not folded; 0: none.",
		func(i *Info, _ time.Time) float64 { return i.OldestUnreadAge.Seconds() }),
	newGauge("checkpoint_timestamp_seconds", "When the last entry was appended that is folded, with all before it; 0: none is.",
		func(i *Info, _ time.Time) float64 { return float64(i.Checkpoint.Ms) / 1000 }),
	newGauge("live", "1 when readers use this version.",
		func(i *Info, _ time.Time) float64 { return flag(i.Live) }),
	newGauge("owned", "1 while somebody folds this version. Use max over processes.",
		func(i *Info, now time.Time) float64 { return flag(i.Owned(now)) }),
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// NewMetrics checks the addresses. It sends nothing; register it, and each collection asks the server.
func NewMetrics(client *tier.Client, addresses ...string) (*Metrics, error) {
	m := &Metrics{client: client, addresses: make([]tier.Address, len(addresses))}
	for i, address := range addresses {
		var err error
		if m.addresses[i], err = tier.ParseAddress(address); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector. Without a server there are no series, rather than old ones.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	for _, addr := range m.addresses {
		if err := m.collect(ctx, addr, ch); err != nil {
			m.client.Logger().Warn("projection metrics not collected", slog.String("stream", addr.String()), slog.Any("err", err))
		}
	}
}

func (m *Metrics) collect(ctx context.Context, addr tier.Address, ch chan<- prometheus.Metric) error {
	list, err := List(ctx, m.client, addr.String())
	if errors.Is(err, stream.ErrNoStream) || errors.Is(err, stream.ErrStreamRemoved) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := m.client.Now(ctx, addr.LogKey())
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Version == 0 {
			continue // a cursor of others
		}
		for _, g := range gauges {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&list[i], now),
				addr.Scope, addr.Stream, list[i].Projection, strconv.Itoa(list[i].Version))
		}
	}
	return nil
}

package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/tier"
)

// GroupMetrics collects what Groups says of the groups of streams. The numbers are the server's, so every process
// that collects them shows the same: a dashboard takes their maximum, not their sum.
type GroupMetrics struct {
	places []*place
}

// collectTime bounds one collection; one that takes longer yields nothing.
const collectTime = 5 * time.Second

var groupLabels = []string{"scope", "stream", "group"}

func groupDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("echomq_stream_group_"+name, help, groupLabels, nil)
}

var (
	lagDesc           = groupDesc("lag_entries", "Entries that the group was not given yet; a pack is one. Use max over processes.")
	lagEstimatedDesc  = groupDesc("lag_estimated", "1 when the server cannot tell the lag, which then is at most what lag_entries says.")
	pendingDesc       = groupDesc("pending_entries", "Entries given out and not settled. Use max over processes.")
	parkedDesc        = groupDesc("parked_entries", "Entries that failed and wait to be tried again. Use max over processes.")
	dueDesc           = groupDesc("parked_due_seconds", "Until the first parked entry is due; 0: it is, or none is parked.")
	oldestParkedDesc  = groupDesc("oldest_parked_age_seconds", "Age of the oldest parked entry; 0: none. Of more than 200, of those that are due first and last.")
	consumersDesc     = groupDesc("consumers", "Consumers that the server lists, those that died lately too.")
	deadDesc          = groupDesc("dead_letters", "Dead letters of the group.")
	oldestDeadDesc    = groupDesc("oldest_dead_letter_age_seconds", "How long ago the oldest dead letter became one; 0: none.")
	pausedDesc        = groupDesc("paused", "1 when the group is paused. Use max over processes.")
	oldestPendingDesc = groupDesc("oldest_pending_age_seconds", "Age of the oldest entry that is given out and not settled; 0: none.")
	oldestUnreadDesc  = groupDesc("oldest_unread_age_seconds", "Age of the oldest entry that the group was not given yet; 0: none.")
)

// NewGroupMetrics checks the addresses, of a partitioned stream one for each partition: a registry takes one collector of a
// kind. It sends nothing; register it, and each collection asks the server.
func NewGroupMetrics(client *tier.Client, addresses ...string) (*GroupMetrics, error) {
	places, err := newPlaces(client, addresses)
	if err != nil {
		return nil, err
	}
	return &GroupMetrics{places}, nil
}

func newPlaces(client *tier.Client, addresses []string) ([]*place, error) {
	places := make([]*place, len(addresses))
	for i, address := range addresses {
		var err error
		if places[i], err = newLogPlace(client, address); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// Describe implements prometheus.Collector.
func (m *GroupMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		lagDesc, lagEstimatedDesc, pendingDesc, parkedDesc, dueDesc, oldestParkedDesc, consumersDesc, deadDesc, oldestDeadDesc, pausedDesc,
		oldestPendingDesc, oldestUnreadDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Without a server there are no series, rather than old ones.
func (m *GroupMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	for _, p := range m.places {
		if err := p.collectGroups(ctx, ch); err != nil {
			p.client.Logger().Warn("group metrics not collected", slog.String("stream", p.addr.String()), slog.Any("err", err))
		}
	}
}

func (p *place) collectGroups(ctx context.Context, ch chan<- prometheus.Metric) error {
	groups, err := Groups(ctx, p.client, p.addr.String())
	for _, g := range groups {
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, p.addr.Scope, p.addr.Stream, g.Name)
		}
		gauge(lagDesc, float64(g.Lag))
		gauge(lagEstimatedDesc, flag(!g.LagExact))
		gauge(pausedDesc, flag(g.Paused))
		gauge(dueDesc, g.DueIn.Seconds())
		gauge(oldestParkedDesc, g.OldestParkedAge.Seconds())
		gauge(oldestDeadDesc, g.OldestDeadAge.Seconds())
		gauge(pendingDesc, float64(g.Pending))
		gauge(parkedDesc, float64(g.Parked))
		gauge(consumersDesc, float64(g.Consumers))
		gauge(deadDesc, float64(g.Dead))
		gauge(oldestPendingDesc, g.OldestPendingAge.Seconds())
		gauge(oldestUnreadDesc, g.OldestUnreadAge.Seconds())
	}
	return err
}

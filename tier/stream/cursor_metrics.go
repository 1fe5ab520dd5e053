package stream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/tier"
)

// CursorMetrics collects what Cursors says of the cursors of streams, as GroupMetrics does of groups. A projection's version is
// a cursor, too.
type CursorMetrics struct {
	places []*place
}

// cursorGauge is a metric of a cursor. Now is the server's time.
type cursorGauge struct {
	desc  *prometheus.Desc
	value func(c *CursorInfo, now time.Time) float64
}

func newCursorGauge(name, help string, value func(c *CursorInfo, now time.Time) float64) cursorGauge {
	return cursorGauge{prometheus.NewDesc("echomq_stream_cursor_"+name, help, []string{"scope", "stream", "cursor"}, nil), value}
}

var cursorGauges = []cursorGauge{
	newCursorGauge("lag_entries", "Entries that are not through; a pack is one. Use max over processes.",
		func(c *CursorInfo, _ time.Time) float64 { return float64(c.Lag) }),
	newCursorGauge("lag_estimated", "1 when the server cannot tell the lag, which then is at most what lag_entries says.",
		func(c *CursorInfo, _ time.Time) float64 { return flag(!c.LagExact) }),
	newCursorGauge("oldest_unread_age_seconds", "Age of the oldest entry that is not through; 0: none.",
		func(c *CursorInfo, _ time.Time) float64 { return c.OldestUnreadAge.Seconds() }),
	newCursorGauge("checkpoint_timestamp_seconds", "When the entry of the checkpoint was appended; 0: nothing is through yet.",
		func(c *CursorInfo, _ time.Time) float64 { return float64(c.Checkpoint.Ms) / 1000 }),
	newCursorGauge("parked_entries", "Entries that failed and wait to be tried again. Use max over processes.",
		func(c *CursorInfo, _ time.Time) float64 { return float64(c.Parked) }),
	newCursorGauge("dead_letters", "Dead letters of the cursor.",
		func(c *CursorInfo, _ time.Time) float64 { return float64(c.Dead) }),
	newCursorGauge("owned", "1 while somebody owns the cursor. Use max over processes.",
		func(c *CursorInfo, now time.Time) float64 { return flag(c.Owned(now)) }),
	newCursorGauge("epoch", "Grows whenever the cursor changes hands: how often it changes tells of owners that die.",
		func(c *CursorInfo, _ time.Time) float64 { return float64(c.Epoch) }),
	newCursorGauge("crashes", "How often the owner died without getting any further; from 2 on somebody should look at the next entry.",
		func(c *CursorInfo, _ time.Time) float64 { return float64(c.Crashes) }),
	newCursorGauge("paused", "1 when the cursor is paused. Use max over processes.",
		func(c *CursorInfo, _ time.Time) float64 { return flag(c.Paused) }),
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// NewCursorMetrics checks the addresses, of a partitioned stream one for each partition. It sends nothing; register it, and
// each collection asks the server.
func NewCursorMetrics(client *tier.Client, addresses ...string) (*CursorMetrics, error) {
	places, err := newPlaces(client, addresses)
	if err != nil {
		return nil, err
	}
	return &CursorMetrics{places}, nil
}

// Describe implements prometheus.Collector.
func (m *CursorMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range cursorGauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector. Without a server there are no series, rather than old ones.
func (m *CursorMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	for _, p := range m.places {
		if err := p.collectCursors(ctx, ch); err != nil {
			p.client.Logger().Warn("cursor metrics not collected", slog.String("stream", p.addr.String()), slog.Any("err", err))
		}
	}
}

func (p *place) collectCursors(ctx context.Context, ch chan<- prometheus.Metric) error {
	list, err := Cursors(ctx, p.client, p.addr.String())
	if errors.Is(err, ErrNoStream) || errors.Is(err, ErrStreamRemoved) {
		return nil
	}
	if err != nil || len(list) == 0 {
		return err
	}
	now, err := p.client.Now(ctx, p.addr.LogKey())
	if err != nil {
		return err
	}
	for i := range list {
		for _, g := range cursorGauges {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&list[i], now), p.addr.Scope, p.addr.Stream, list[i].Name)
		}
	}
	return nil
}

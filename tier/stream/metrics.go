package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/tier"
)

// writerMetrics of one writer. Writers of one process share the series of their stream.
type writerMetrics struct {
	messages   prometheus.Counter
	bytes      prometheus.Counter
	repeats    prometheus.Counter
	failed     prometheus.Counter
	unknown    prometheus.Counter
	seen       prometheus.Counter
	redeclared prometheus.Counter
	roundTrip  prometheus.Observer
	lead       prometheus.Gauge
}

func newWriterMetrics(reg prometheus.Registerer, addr tier.Address) *writerMetrics {
	labels := prometheus.Labels{"scope": addr.Scope, "stream": addr.Stream}
	counter := func(name, help string) prometheus.Counter {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "echomq", Subsystem: "stream", Name: name, Help: help}, []string{"scope", "stream"})
		return tier.Register(reg, v).With(labels)
	}
	return &writerMetrics{
		messages:   counter("appended_messages_total", "Messages acknowledged by the server."),
		bytes:      counter("appended_bytes_total", "Encoded bytes of the messages acknowledged by the server."),
		repeats:    counter("append_repeats_total", "Calls that were sent again after a failure."),
		failed:     counter("append_failed_total", "Calls that failed with nothing written."),
		unknown:    counter("append_unknown_total", "Calls that ended without knowing whether they are in the log."),
		seen:       counter("append_duplicates_total", "Messages that were not appended, since their key had been seen within its window."),
		redeclared: counter("redeclared_total", "Times that the stream was declared again, since the server had lost it."),
		roundTrip: tier.Register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "echomq", Subsystem: "stream", Name: "append_seconds",
			Help:    "Time of one write of up to eight calls, reply included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12),
		}, []string{"scope", "stream"})).With(labels),
		lead: tier.Register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "echomq", Subsystem: "stream", Name: "id_lead_seconds",
			Help: "How far the newest id is ahead of this host's clock; above a second, the server's clock stepped back or differs.",
		}, []string{"scope", "stream"})).With(labels),
	}
}

// round counts what the last round did.
func (m *writerMetrics) round(s *sender) {
	m.messages.Add(float64(s.messages))
	m.bytes.Add(float64(s.bytes))
	m.failed.Add(float64(s.calledOff))
	m.unknown.Add(float64(s.unknown))
	m.repeats.Add(float64(len(s.sent)))
	if s.messages > 0 {
		m.lead.Set(max(0, s.lead.Seconds()))
	}
}

// once counts a call of AppendOnce.
func (m *writerMetrics) once(b *batch, code string, err error) {
	switch {
	case tier.OutcomeUnknown(err):
		m.unknown.Inc()
	case err != nil:
		m.failed.Inc()
	case code == "seen":
		m.seen.Inc()
	default:
		m.messages.Inc()
		m.bytes.Add(float64(b.bytes))
	}
}

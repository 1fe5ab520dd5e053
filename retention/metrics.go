package retention

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
)

// metrics of one sweeper. Sweepers of one process on one scope share their series.
type metrics struct {
	scope    string
	sweeping prometheus.Gauge
	beats    prometheus.Counter
	failures prometheus.Counter
	trimmed  *prometheus.CounterVec
	dropped  *prometheus.CounterVec
	retired  *prometheus.CounterVec
	over     *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	failed   *prometheus.CounterVec
	archive  archiveMetrics
}

// archiveMetrics are those of the archive.
type archiveMetrics struct {
	segments, messages, bytes, deleted, failures *prometheus.CounterVec
	failing, behind                              *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, scope string) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return tier.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "echomq", Subsystem: "retention", Name: name, Help: help}, append([]string{"scope"}, labels...)))
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return tier.Register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "echomq", Subsystem: "retention", Name: name, Help: help}, append([]string{"scope"}, labels...)))
	}
	return &metrics{
		scope:    scope,
		sweeping: gauges("sweeping", "1 while this sweeper holds the right to trim; of all that run for a scope one does.").WithLabelValues(scope),
		beats:    counters("beats_total", "Times that the streams of the scope were gone through.").WithLabelValues(scope),
		failures: counters("beat_failures_total", "Beats that ended before all streams had their turn: the server failed, or the right was lost.").WithLabelValues(scope),
		trimmed:  counters("trimmed_entries_total", "Entries that policies took away, what was dropped included.", "stream"),
		dropped:  counters("dropped_entries_total", "Entries that a hard cap took from a group or a cursor that had not settled them; without a group, from the archive. Someone has lost them.", "stream", "group"),
		retired:  counters("retired_groups_total", "Groups that were deleted since nobody had consumed them for as long as the policy says.", "stream"),
		over:     gauges("over_entries", "Entries above the max length of the policy, or what its max bytes come to, after the last beat: what somebody holds.", "stream"),
		held:     gauges("held_age_seconds", "Age of the first entry that somebody needs; 0: there is none.", "stream"),
		archive: archiveMetrics{
			segments: counters("archived_segments_total", "Segments that were archived.", "stream"),
			messages: counters("archived_messages_total", "Messages in these.", "stream"),
			bytes:    counters("archived_bytes_total", "Bytes of their objects.", "stream"),
			deleted:  counters("archive_deleted_segments_total", "Segments that the archive's own max age has taken.", "stream"),
			failures: counters("archive_failures_total", "Turns in which a stream could not be archived.", "stream"),
			failing:  gauges("archive_failing", "1 while a stream cannot be archived: nothing more of it goes. Someone has to act.", "stream"),
			behind:   gauges("archive_behind_seconds", "Age of the first entry that the archive does not have.", "stream"),
		},
		failed: counters("failures_total", "Turns of a stream that failed: nothing more of it goes until that is mended. Someone has to act.", "stream"),
	}
}

// turn counts what a stream's turn came to.
func (m *metrics) turn(s *Swept) {
	name := s.Address.Stream
	m.trimmed.WithLabelValues(m.scope, name).Add(float64(s.Entries))
	for group, n := range s.Dropped {
		m.dropped.WithLabelValues(m.scope, name, group).Add(float64(n))
	}
	m.retired.WithLabelValues(m.scope, name).Add(float64(len(s.Retired)))
	if s.Err != nil {
		m.failed.WithLabelValues(m.scope, name).Inc()
		return
	}
	m.over.WithLabelValues(m.scope, name).Set(float64(s.Over))
	m.held.WithLabelValues(m.scope, name).Set(s.HeldAge.Seconds())
}

// archivedTurn counts what a turn of the archive came to.
func (m *metrics) archivedTurn(name string, done *archive.Archived, err error) {
	a := &m.archive
	a.segments.WithLabelValues(m.scope, name).Add(float64(done.Segments))
	a.messages.WithLabelValues(m.scope, name).Add(float64(done.Messages))
	a.bytes.WithLabelValues(m.scope, name).Add(float64(done.Bytes))
	a.deleted.WithLabelValues(m.scope, name).Add(float64(done.Deleted))
	failing := 0.0
	if err != nil {
		failing = 1
		a.failures.WithLabelValues(m.scope, name).Inc()
	}
	a.failing.WithLabelValues(m.scope, name).Set(failing)
}

// unarchived forgets a stream that is not archived, or not by this process.
func (m *metrics) unarchived(name string) {
	m.archive.failing.DeleteLabelValues(m.scope, name)
	m.archive.behind.DeleteLabelValues(m.scope, name)
}

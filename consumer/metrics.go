package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/tier"
)

// metrics of one consumer. Consumers of one process on one group, or cursor, share their series.
type metrics struct {
	deliveries [outcomes]prometheus.Counter
	seconds    prometheus.Observer
	inFlight   prometheus.Gauge
	paused     prometheus.Gauge

	settled        prometheus.Counter
	takenOver      prometheus.Counter
	parked         prometheus.Counter
	dead           map[string]prometheus.Counter // by cause
	commitFailures prometheus.Counter

	released  map[string]prometheus.Counter // by reason
	lost      map[string]prometheus.Counter // by cause
	rebuilds  map[tier.Rebuild]prometheus.Counter
	rewinds   prometheus.Counter
	callFails *prometheus.CounterVec // by call
}

// Reasons why entries are released.
const (
	releasedFailed   = "failed"      // a handler failed, and the server refused to park its message: for later
	releasedReturned = "handed_back" // a stop got in the way: for others, at once
	releasedStranded = "stranded"    // a read failed after the server had given them out
)

// Causes why entries are lost to this consumer.
const (
	lostLease     = "lease"     // taken over by another consumer
	lostRetention = "retention" // trimmed before anybody handled them
	lostGone      = "gone"      // not pending any more while they were handled: trimmed, or settled by another program
)

func newMetrics(reg prometheus.Registerer, o Origin) *metrics {
	f := factory{reg, prometheus.Labels{"scope": o.Scope, "stream": o.Stream, "group": o.Group, "cursor": o.Cursor}}
	m := &metrics{
		seconds:        f.histogram("handler_seconds", "Time that handlers took, one message each."),
		inFlight:       f.gauge("in_flight_messages", "Messages that were fetched and are not settled."),
		paused:         f.gauge("paused", "1 while the group or cursor is paused, so that nothing is fetched."),
		settled:        f.counter("settled_entries_total", "Entries settled."),
		takenOver:      f.counter("taken_over_entries_total", "Entries taken over after their lease had ended or they were released."),
		parked:         f.counter("parked_messages_total", "Messages that were parked, to come again later."),
		dead:           map[string]prometheus.Counter{},
		commitFailures: f.counter("commit_failures_total", "Entries that the server refused to park, to move to the dead letters, or to commit with outputs; they stay pending. Someone has to act."),
		released:       map[string]prometheus.Counter{},
		lost:           map[string]prometheus.Counter{},
		rebuilds:       map[tier.Rebuild]prometheus.Counter{},
		rewinds:        f.counter("rewinds_total", "Reads that brought entries at or below one that was read before: the group was reset, or the server lost what it knew last."),
	}
	deliveries := f.vec("deliveries_total", "Messages given to the handler, by how it ended.", "outcome")
	for o := range outcomes {
		m.deliveries[o] = deliveries.WithLabelValues(o.String())
	}
	released := f.vec("released_entries_total", "Entries released before they were settled, by reason.", "reason")
	for _, reason := range []string{releasedFailed, releasedReturned, releasedStranded} {
		m.released[reason] = released.WithLabelValues(reason)
	}
	dead := f.vec("dead_messages_total", "Messages moved to the dead letters, by cause: their handler gave them up (permanent), they failed as often as they may (exhausted), they were delivered as often as they may and the last time did not end (unfinished), or cannot be read (undecodable).", "cause")
	for _, cause := range []string{deadPermanent, deadExhausted, deadUnfinished, deadUndecodable} {
		m.dead[cause] = dead.WithLabelValues(cause)
	}
	lost := f.vec("lost_entries_total", "Entries that this consumer held and could not settle, by cause: their lease was lost to another consumer, they were trimmed (retention), or they were trimmed or settled by another program while they were handled (gone).", "cause")
	for _, cause := range []string{lostLease, lostRetention, lostGone} {
		m.lost[cause] = lost.WithLabelValues(cause)
	}
	rebuilds := f.vec("rebuilds_total", "Times the server had lost the group or cursor, by how it came back: found made again by another consumer, resumed where everything was settled, restarted because the stream was lost.", "how")
	for _, how := range []tier.Rebuild{tier.Found, tier.Resumed, tier.Restarted} {
		m.rebuilds[how] = rebuilds.WithLabelValues(string(how))
	}
	m.callFails = f.vec("call_failures_total", "Calls to the server that failed and were, or will be, tried again, by call.", "call")
	m.callFails.WithLabelValues("read")
	return m
}

// handled counts one message.
func (m *metrics) handled(o outcome, took time.Duration) {
	m.deliveries[o].Inc()
	m.seconds.Observe(took.Seconds())
}

// factory makes the collectors of the package, or finds those that an earlier consumer of the process has registered.
type factory struct {
	reg    prometheus.Registerer
	labels prometheus.Labels
}

// labelNames: a series has a group or a cursor. To Prometheus a label that is empty is one that is not there.
var labelNames = []string{"scope", "stream", "group", "cursor"}

func (f factory) vec(name, help string, label string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "echomq", Subsystem: "consumer", Name: name, Help: help,
	}, append(labelNames[:4:4], label))
	return tier.Register(f.reg, v).MustCurryWith(f.labels)
}

func (f factory) counter(name, help string) prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "echomq", Subsystem: "consumer", Name: name, Help: help,
	}, labelNames)
	return tier.Register(f.reg, v).With(f.labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "echomq", Subsystem: "consumer", Name: name, Help: help,
	}, labelNames)
	return tier.Register(f.reg, v).With(f.labels)
}

func (f factory) histogram(name, help string) prometheus.Observer {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "echomq", Subsystem: "consumer", Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10), // 0.1 ms to 26 s
	}, labelNames)
	return tier.Register(f.reg, v).With(f.labels)
}

package stage

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a stage. Stages of one process share their vectors.
type metrics struct{ handled, dead, late prometheus.Counter }

func newMetrics(reg prometheus.Registerer, name string) *metrics {
	counter := func(what, help string) prometheus.Counter {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "echomq", Subsystem: "stage", Name: what, Help: help}, []string{"stage"})).WithLabelValues(name)
	}
	return &metrics{
		handled: counter("messages_total", "Messages that were decided on, and committed."),
		dead:    counter("dead_letters_total", "Messages that went to the stage's dead letters."),
		late:    counter("late_messages_total", "Messages that came after all of their windows were closed."),
	}
}

// register is the vector of that name, which another stage may have registered.
func register(reg prometheus.Registerer, v *prometheus.CounterVec) *prometheus.CounterVec {
	if reg == nil {
		return v
	}
	if err := reg.Register(v); err != nil {
		if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			if had, ok := before.ExistingCollector.(*prometheus.CounterVec); ok {
				return had
			}
		}
	}
	return v
}

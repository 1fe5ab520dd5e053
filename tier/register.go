package tier

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector, or returns the one that is registered already, so that components of one process
// share their series. With a nil registerer, or where another program's metric has the name, it counts unseen: no reason
// not to work.
func Register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	if errors.As(reg.Register(c), &already) {
		if same, ok := already.ExistingCollector.(C); ok {
			return same
		}
	}
	return c
}

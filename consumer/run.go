package consumer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/internal/throttle"
)

// run is one run of a consumer: what its loops share.
//
//	fetch    reads and takes over, as long as there is room
//	work     handles, on Concurrency goroutines
//	settle   settles, commits and releases what is through
//	beat     renews the leases of all that is in flight
//	listen   hears what is cancelled
type run struct {
	cfg     Config
	handler Handler
	batch   BatchHandler // in place of handler
	member  Member
	notes   annotator // the member, of jobs; else nil
	lease   time.Duration
	// exclusive says that the member owns its cursor, or stands by.
	exclusive bool
	// unordered says that entries are not read in the order of their ids.
	unordered bool
	idleWait  time.Duration
	began     time.Time
	metrics   *metrics
	log       *throttle.Logger
	desk      *desk

	// calls is the context of all calls to the server. It outlives Run's, and ends when the stop may take no longer.
	calls context.Context
	// fetching ends when the stop begins, and flushing when nothing is added any more to what is to be settled.
	fetching, flushing       context.Context
	stopFetching, stopAdding context.CancelFunc
	endCalls                 context.CancelFunc

	line    sync.Mutex  // see call
	reading sync.Mutex  // held from a read's request until its entries are known here
	fenced  atomic.Bool // a call was refused, and no Sync has been made since
	settled atomic.Bool // something was, and no checkpoint has been made since

	urgent    urgent
	uncertain atomic.Bool // what is parked may be another than is known here

	workers conc.WaitGroup
	loops   conc.WaitGroup

	failure struct {
		sync.Mutex
		fatal error // why the run ends by itself
		last  error // of the last call that failed
	}
}

func newRun(c *Consumer, ctx context.Context, member Member) *run {
	values := context.WithoutCancel(ctx)
	origin := originOf(c.source)
	log := c.cfg.Logger.With(origin.attributes(member.Name())...)
	r := &run{
		cfg: c.cfg, handler: c.handler, batch: c.batch, member: member, lease: member.Lease(), began: time.Now(),
		metrics: newMetrics(c.cfg.Registerer, origin),
		log:     throttle.New(log),
	}
	_, r.exclusive = member.(interface{ Owns() bool })
	r.idleWait = idleWait
	if _, r.unordered = member.(interface{ unordered() }); r.unordered {
		r.idleWait = idleJobWait
	}
	if m, ok := member.(interface{ LeavePacks() }); ok && r.cfg.Order == None && r.batch == nil {
		m.LeavePacks() // the workers decode them
	}
	r.notes, _ = member.(annotator)
	r.urgent.wake = make(chan struct{}, 1)
	r.settled.Store(true) // by whoever was here before
	r.uncertain.Store(true)
	r.desk = newDesk(values, c.cfg.MaxInFlight, c.cfg.MaxInFlightBytes, c.cfg.policy(), c.cfg.Order, func(delta int) { r.metrics.inFlight.Add(float64(delta)) })
	r.desk.upcasts = c.cfg.Upcasts
	r.calls, r.endCalls = context.WithCancel(values)
	r.fetching, r.stopFetching = context.WithCancel(ctx)
	r.flushing, r.stopAdding = context.WithCancel(values)
	return r
}

// fail ends the run for a reason that waiting does not change. The first reason counts.
func (r *run) fail(err error) {
	r.failure.Lock()
	if r.failure.fatal == nil {
		r.failure.fatal = err
		r.log.Error("consumer stops: the server refused a call for good", slog.Any("err", err))
	}
	r.failure.Unlock()
	r.stopFetching()
}

func (r *run) fatal() error {
	r.failure.Lock()
	defer r.failure.Unlock()
	return r.failure.fatal
}

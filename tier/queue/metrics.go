package queue

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/tier"
)

// Metrics collects what the server says of queues, their lanes and their schedules. The numbers are the server's, so every process
// that collects them shows the same: a dashboard takes their maximum, not their sum. What a worker does, package consumer counts.
//
// Labels are bounded: of a queue's lanes those have series that were configured, the first hundred by name, and the default lane.
type Metrics struct {
	queues []*Client
}

const (
	// collectTime bounds one collection; one that takes longer yields nothing.
	collectTime = 5 * time.Second
	// metricLanes is how many configured lanes of a queue have series of their own.
	metricLanes = 100
)

func queueDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("echomq_queue_"+name, help, append([]string{"queue"}, labels...), nil)
}

var (
	jobsDesc       = queueDesc("jobs", "Jobs that are not done, by state; scheduled are those to be tried again, too. Use max over processes.", "state")
	workersDesc    = queueDesc("workers", "Workers that the server knows, those that died lately too. Use max over processes.")
	queuePauseDesc = queueDesc("paused", "1 when the queue is paused. Use max over processes.")
	lateDesc       = queueDesc("due_late_seconds", "For how long the first scheduled job is due and not ready: no worker is there, the queue is paused, or the server full; 0: none is.")
	outboxDesc     = queueDesc("outbox_entries", "What of flows is on its way to parents and to other queues. Use max over processes.")
	laneJobsDesc   = queueDesc("lane_jobs", "Jobs in a configured lane, by state. Use max over processes.", "lane", "state")
	laneAgeDesc    = queueDesc("lane_oldest_ready_age_seconds", "For how long the first ready job of a configured lane is ready; 0: none is.", "lane")
	lanePauseDesc  = queueDesc("lane_paused", "1 when the lane is paused. Use max over processes.", "lane")
	laneMostDesc   = queueDesc("lane_ceiling_jobs", "How many jobs of the lane may be active at once; 0: any number.", "lane")
	nextDesc       = queueDesc("schedule_next_timestamp_seconds", "The first occurrence that nobody has fired for; in the past, nobody fires. 0: there is none.", "schedule")
	lastDesc       = queueDesc("schedule_last_timestamp_seconds", "The last occurrence that a job was made for; 0: none yet.", "schedule")
)

// NewMetrics checks the names of the queues: a registry takes one collector of the kind. It sends nothing; register it, and each
// collection asks the server.
func NewMetrics(client *tier.Client, queues ...string) (*Metrics, error) {
	m := &Metrics{}
	for i, name := range queues {
		if slices.Contains(queues[:i], name) {
			continue // its series would be there twice
		}
		c, err := NewClient(client, Config{Queue: name})
		if err != nil {
			return nil, err
		}
		m.queues = append(m.queues, c)
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		jobsDesc, workersDesc, queuePauseDesc, lateDesc, outboxDesc, laneJobsDesc, laneAgeDesc, lanePauseDesc, laneMostDesc, nextDesc, lastDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Without a server there are no series, rather than old ones.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	for _, c := range m.queues {
		s := series{Client: c, ch: ch}
		for _, collect := range []func(context.Context) error{s.queue, s.lanes, s.schedules} {
			if err := collect(ctx); err != nil {
				c.client.Logger().Warn("queue metrics not collected", slog.String("queue", string(c.queue)), slog.Any("err", err))
				break
			}
		}
	}
}

// series are those of one queue.
type series struct {
	*Client
	ch chan<- prometheus.Metric
}

func (s series) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{string(s.Client.queue)}, labels...)...)
}

func (s series) queue(ctx context.Context) error {
	o, err := s.Overview(ctx)
	if err != nil {
		return err
	}
	for state, n := range map[State]int64{Ready: o.Ready, Active: o.Active, Scheduled: o.Scheduled, Waiting: o.Waiting, Dead: o.Dead} {
		s.gauge(jobsDesc, float64(n), string(state))
	}
	s.gauge(workersDesc, float64(o.Workers))
	s.gauge(queuePauseDesc, flag(!o.Paused.IsZero()))
	s.gauge(lateDesc, o.Late.Seconds())
	s.gauge(outboxDesc, float64(o.Outbox))
	return nil
}

func (s series) lanes(ctx context.Context) error {
	key := s.Client.queue.LanesKey()
	configured := map[string]bool{} // a scan may come by twice
	err := s.client.ScanHash(ctx, key, func(lane, _ string) {
		if lane != DefaultLane && tier.CheckName("lane", lane) == nil { // of others Check tells
			configured[lane] = true
		}
	})
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(configured))
	names = append(names[:min(len(names), metricLanes)], DefaultLane)
	infos, err := s.laneInfos(ctx, names)
	if err != nil {
		return err
	}
	now, err := s.client.Now(ctx, key)
	if err != nil {
		return err
	}
	for _, l := range infos {
		age := time.Duration(0)
		if !l.Oldest.IsZero() {
			age = max(0, now.Sub(l.Oldest))
		}
		s.gauge(laneJobsDesc, float64(l.Ready), l.Name, string(Ready))
		s.gauge(laneJobsDesc, float64(l.Active), l.Name, string(Active))
		s.gauge(laneAgeDesc, age.Seconds(), l.Name)
		s.gauge(lanePauseDesc, flag(!l.Paused.IsZero()), l.Name)
		s.gauge(laneMostDesc, float64(l.Ceiling), l.Name)
	}
	return nil
}

func (s series) schedules(ctx context.Context) error {
	list, err := NewSchedules(s.Client).List(ctx)
	for i := range list {
		s.gauge(nextDesc, unixSeconds(list[i].Next), list[i].Name)
		s.gauge(lastDesc, unixSeconds(list[i].Last), list[i].Name)
	}
	return err
}

// unixSeconds is 0 for no time.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

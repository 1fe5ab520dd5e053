package topology

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/topology/stage"
)

// queueResources are what a queue declares.
func queueResources(own string, q Queue) (list []*resource) {
	list = append(list, &resource{
		name: name{kindQueue, own, ""}, attributes: queueAttributes(q.Ceiling, q.Rate.Rate, q.Events),
		put: withQueue(own, func(ctx context.Context, jobs *queue.Client) error {
			if err := jobs.SetCeiling(ctx, q.Ceiling); err != nil {
				return err
			}
			if err := jobs.Limit(ctx, q.Rate.Rate); err != nil {
				return err
			}
			return jobs.DeclareEvents(ctx, q.Events)
		}),
	})
	for _, lane := range sorted(q.Lanes) {
		l := q.Lanes[lane]
		list = append(list, &resource{
			name: name{kindLane, own, lane}, attributes: laneAttributes(queue.Lane{Weight: l.Weight, Ceiling: l.Ceiling, Rate: l.Rate.Rate}),
			put: withQueue(own, func(ctx context.Context, jobs *queue.Client) error { return setLane(ctx, jobs, lane, l) }),
		})
	}
	for _, own2 := range sorted(q.Schedules) {
		s := q.Schedules[own2]
		declared, err := s.queued(own2)
		list = append(list, &resource{
			name: name{kindSchedule, own, own2}, attributes: scheduleAttributes(&declared, ""),
			put: withQueue(own, func(ctx context.Context, jobs *queue.Client) error {
				if err != nil {
					return err
				}
				return queue.NewSchedules(jobs).Put(ctx, declared)
			}),
		})
	}
	return list
}

// withQueue makes a client of a queue for one call.
func withQueue(own string, do func(context.Context, *queue.Client) error) func(context.Context, *tier.Client) error {
	return func(ctx context.Context, client *tier.Client) error {
		jobs, err := queue.NewClient(client, queue.Config{Queue: own})
		if err != nil {
			return err
		}
		defer func() { _ = jobs.Close(context.WithoutCancel(ctx)) }()
		return do(ctx, jobs)
	}
}

// setLane makes a lane what is declared, and by default where nothing is.
func setLane(ctx context.Context, jobs *queue.Client, lane string, l Lane) error {
	weight, ceiling := l.Weight, l.Ceiling
	if weight == 0 {
		weight = 1
	}
	if ceiling == 0 {
		ceiling = -1 // none
	}
	if _, err := jobs.SetLane(ctx, lane, weight, ceiling); err != nil {
		return err
	}
	_, err := jobs.LimitLane(ctx, lane, l.Rate.Rate)
	return err
}

func rateText(r queue.Rate) string {
	text, _ := Rate{r}.MarshalText()
	return string(text)
}

func queueAttributes(ceiling int, r queue.Rate, events int) attributes {
	a := attributes{}
	a.setNumber("ceiling", ceiling)
	a.set("rate", rateText(r))
	a.setNumber("events", events)
	return a
}

func laneAttributes(l queue.Lane) attributes {
	a := attributes{}
	if l.Weight != 0 && l.Weight != 1 {
		a.set("weight", strconv.FormatFloat(l.Weight, 'g', -1, 64))
	}
	a.setNumber("ceiling", l.Ceiling)
	a.set("rate", rateText(l.Rate))
	return a
}

// scheduleAttributes are those of a schedule, as it is declared or as the server has it. A payload may hold what is nobody's
// business: its digest stands for it.
func scheduleAttributes(s *queue.Schedule, set string) attributes {
	a := attributes{}
	a.set("cron", s.Cron)
	if s.Zone != "UTC" {
		a.set("zone", s.Zone)
	}
	if s.Every > 0 {
		a.set("every", stage.Duration(s.Every).String())
	}
	if !s.Anchor.IsZero() && s.Anchor.UnixMilli() != 0 {
		a.set("anchor", s.Anchor.UTC().Format(time.RFC3339Nano))
	}
	if s.CatchUp != schedule.Once {
		a.set("catch_up", string(s.CatchUp))
	}
	if s.Limit != 100 {
		a.setNumber("limit", s.Limit)
	}
	if s.Job.Lane != queue.DefaultLane {
		a.set("lane", s.Job.Lane)
	}
	a.set("type", s.Job.Type)
	a.set("key", s.Job.Key)
	if len(s.Job.Data) > 0 {
		sum := sha256.Sum256(s.Job.Data)
		a.set("data", "sha256:"+hex.EncodeToString(sum[:6]))
	}
	terms := s.Job.Terms
	terms.Tags = append([]string(nil), terms.Tags...) // none is nil
	if !reflect.ValueOf(terms).IsZero() || s.Job.Unique != (queue.Unique{}) {
		a.set("terms", "set by hand")
	}
	a.set("set", set)
	return a
}

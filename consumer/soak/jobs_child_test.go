package soak_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

const (
	jobsChildEnv = "SOAK_JOBS_CHILD"
	jobsKillOne  = 2000 // one handler in so many kills its process
	jobsFail     = 2    // attempts of a job that fails at first
)

// What a job of the drill is, by its type.
const (
	fineJob   = "fine"
	failsJob  = "fails"  // at first
	poisonJob = "poison" // whenever
	parentJob = "parent" // of others, which have ended
)

// workInDrill works on two queues, and fires the schedules of the first.
func workInDrill(ctx context.Context, client *tier.Client, queues []string) error {
	p := pool.New().WithContext(ctx).WithCancelOnError()
	for i, name := range queues {
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		if err != nil {
			return err
		}
		w, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name, Lease: chaosLease})
		if err != nil {
			return err
		}
		c, err := consumer.New(consumer.Jobs(w), func(ctx context.Context, d *consumer.Delivery) error { return drilled(ctx, jobs, d) },
			consumer.Config{Concurrency: 8, MaxInFlight: 32, MaxDeliveries: 100, Backoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond})
		if err != nil {
			return err
		}
		p.Go(c.Run)
		if i == 0 {
			p.Go(queue.NewSchedules(jobs).Run)
		}
	}
	return p.Wait()
}

// drilled does a job.
func drilled(ctx context.Context, jobs *queue.Client, d *consumer.Delivery) error {
	pause(time.Duration(rand.IntN(4)) * time.Millisecond)
	if rand.IntN(jobsKillOne) == 0 {
		killSelf()
	}
	switch d.Type {
	case poisonJob:
		return consumer.Permanent(errMailbox)
	case failsJob:
		if d.Attempt <= jobsFail {
			return errMailbox
		}
	case parentJob:
		switch open, err := jobs.OpenChildren(ctx, d.ID); {
		case err != nil && !errors.Is(err, queue.ErrNoJob): // that of another worker, which has taken it over
			return err
		case open > 0:
			return consumer.Permanent(errors.New("it was begun before its children have ended"))
		}
	}
	return nil
}

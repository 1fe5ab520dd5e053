package queue_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A program declares its schedules and fires them, as do all others that work on the queue.
func ExampleSchedules() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, stop := tiertest.Local(ctx)
	defer stop()

	jobs, err := queue.NewClient(client, queue.Config{Queue: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	schedules := queue.NewSchedules(jobs)
	err = schedules.Declare(ctx, "billing",
		queue.Schedule{Name: "invoices", Cron: "30 2 29 2 *", Zone: "America/New_York", Job: queue.Job{Message: codec.Message{Type: "invoices"}}},
		queue.Schedule{Name: "poll", Every: 100 * time.Millisecond, Job: queue.Job{Message: codec.Message{Type: "poll"}}},
	)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- schedules.Run(ctx) }()

	workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	member, err := workers.Join(ctx, "example")
	if err != nil {
		log.Fatal(err)
	}
	leased, err := member.Read(ctx, 1, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	job := leased[0].Records[0]
	occurrence, _ := job.Headers.Get(queue.HeaderOccurrence)
	fmt.Println(job.Type, occurrence[len(occurrence)-3:])
	cancel()
	fmt.Println(<-ended)
	// Output:
	// poll 00Z
	// <nil>
}

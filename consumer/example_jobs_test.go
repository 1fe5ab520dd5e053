package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A worker has a handler for each type of job. What a job came to can be waited for, wherever it was done.
func ExampleJobs() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	type Welcome struct{ To string }
	payload := codec.JSON[Welcome]()
	var mux consumer.Mux
	consumer.Handle(&mux, "welcome", payload, func(_ context.Context, d *consumer.Delivery, w Welcome) error {
		if d.Attempt == 1 {
			fmt.Println(w.To, "has a full mailbox")
			return consumer.RetryAfter(errors.New("mailbox full"), 10*time.Millisecond)
		}
		d.Emit(tier.Outcome("sent to " + w.To))
		return nil
	})
	workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Jobs(workers), mux.Serve, consumer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- c.Run(work) }()

	jobs, err := queue.NewClient(client, queue.Config{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	job := queue.Job{Message: codec.Message{Type: "welcome"}, Terms: tier.Terms{Keep: time.Hour}}
	if err := payload.Encode(&job.Message, Welcome{"ann"}); err != nil {
		log.Fatal(err)
	}
	id, err := jobs.Enqueue(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	outcome, err := jobs.Wait(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome.Result)
	stop()
	fmt.Println("stopped:", <-ended)
	// Output:
	// ann has a full mailbox
	// sent to ann
	// stopped: <nil>
}

// A job waits for others, side by side, and reads what they came to.
func ExampleJobs_flow() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	jobs, err := queue.NewClient(client, queue.Config{Queue: "reports"})
	if err != nil {
		log.Fatal(err)
	}
	count := func(text string) queue.Job {
		return queue.Job{Message: codec.Message{Type: "count", Data: []byte(text)}}
	}
	sum := queue.Job{Message: codec.Message{Type: "sum"}, Terms: tier.Terms{Keep: time.Hour}}
	id, err := jobs.EnqueueFlow(ctx, queue.FanIn(sum, count("one two"), count("three"), count("four five six")))
	if err != nil {
		log.Fatal(err)
	}

	handler := func(ctx context.Context, d *consumer.Delivery) error {
		n := 0
		switch d.Type {
		case "count":
			n = len(d.Data)
		case "sum":
			values, err := jobs.ChildrenValues(ctx, d.ID)
			if err != nil {
				return err
			}
			for _, value := range values {
				part, err := strconv.Atoi(string(value))
				if err != nil {
					return consumer.Permanent(err)
				}
				n += part
			}
		}
		d.Emit(tier.Outcome(strconv.Itoa(n)))
		return nil
	}
	workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: "reports"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Jobs(workers), handler, consumer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- c.Run(work) }()

	outcome, err := jobs.Wait(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome.Result, "characters")
	stop()
	fmt.Println("stopped:", <-ended)
	// Output:
	// 25 characters
	// stopped: <nil>
}

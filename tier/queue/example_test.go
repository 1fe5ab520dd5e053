package queue_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Jobs are enqueued: once for each unique key, some for later, any number in one round trip.
func ExampleClient() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	jobs, err := queue.NewClient(client, queue.Config{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close(ctx)
	welcome := queue.Job{
		Message: codec.Message{Type: "welcome", Data: []byte("ann")},
		Unique:  queue.Unique{Key: "ann"},
		Terms:   tier.Terms{MaxAttempts: 5, Timeout: time.Minute},
	}
	first, err := jobs.Enqueue(ctx, welcome)
	if err != nil {
		log.Fatal(err)
	}
	again, err := jobs.Enqueue(ctx, welcome)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same job:", first == again)

	_, err = jobs.EnqueueMany(ctx, []queue.Job{
		{Message: codec.Message{Type: "digest"}, Lane: "bulk"},
		{Message: codec.Message{Type: "reminder"}, Lane: "bulk", Delay: 24 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	for info, err := range jobs.List(ctx, queue.Selection{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Lane, info.Message.Type, info.State)
	}
	// Output:
	// the same job: true
	// bulk digest ready
	// default welcome ready
	// bulk reminder scheduled
}

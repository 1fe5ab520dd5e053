package demo

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// What the consumers of the demo do.
const (
	address   = "demo/earthquakes"
	groupName = "catalogue"
	lease     = 2 * time.Second // short, so that a death is noticed soon
	workers   = 4               // of each consumer
	inFlight  = 96              // messages that a consumer holds
	workTime  = 5 * time.Millisecond
)

// handled is what a consumer reports of each message, one JSON object a line.
type handled struct {
	ID      codec.ID `json:"id"`
	Network string   `json:"network"`
	Attempt int      `json:"attempt"`
}

// Work is one consumer of the demo's group, in a process of its own. It reports what
// it handled to out, and stops when ctx ends or when alive, which its parent holds
// open, is closed.
func Work(ctx context.Context, url, name string, alive io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, alive)
		cancel()
	}()
	client, err := tier.Dial(ctx, url, tier.Options{ClientName: name})
	if err != nil {
		return err
	}
	defer client.Close()
	g, err := stream.NewGroup(client, groupConfig())
	if err != nil {
		return err
	}
	w := &worker{out: out}
	c, err := consumer.New(consumer.Group(g), w.handle, consumer.Config{Name: name, Concurrency: workers, MaxInFlight: inFlight})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func groupConfig() stream.GroupConfig {
	return stream.GroupConfig{Address: address, Name: groupName, Start: stream.Head(), Lease: lease}
}

type worker struct {
	mu  sync.Mutex
	out io.Writer
}

// handle takes its time, as a call to another service would, and reports.
func (w *worker) handle(ctx context.Context, d *consumer.Delivery) error {
	timer := time.NewTimer(workTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	line, err := json.Marshal(handled{d.ID, d.Key, d.Attempt})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	return err
}

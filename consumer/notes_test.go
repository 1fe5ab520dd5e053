package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestNotes: what a handler notes of its job can be read while it runs, and after it has failed for good; one job at a time and in
// batches.
func TestNotes(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		name := tiertest.AuditedScope(t, server)
		client := tiertest.Dial(t, server)
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		require.NoError(t, err)
		workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name})
		require.NoError(t, err)
		noted, goOn := make(chan error, 1), make(chan struct{})
		note := func(ctx context.Context, d *consumer.Delivery) error {
			noted <- errors.Join(d.Progress(ctx, []byte("50")), d.Log(ctx, "begun", "half"))
			<-goOn
			return consumer.Permanent(errors.New("no"))
		}
		batch := func(ctx context.Context, all []*consumer.Delivery) []error {
			return []error{note(ctx, all[0])}
		}
		single, err := consumer.New(consumer.Jobs(workers), note, consumer.Config{})
		require.NoError(t, err)
		batched, err := consumer.NewBatch(consumer.Jobs(workers), batch, consumer.Config{})
		require.NoError(t, err)
		for _, c := range []*consumer.Consumer{single, batched} {
			id, err := jobs.Enqueue(t.Context(), queue.Job{})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			require.NoError(t, get(t, noted))
			check := func() {
				n, err := jobs.Notes(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, "50", string(n.Progress))
				require.Len(t, n.Lines, 2)
				require.Equal(t, "half", n.Lines[1].Text)
			}
			check()
			goOn <- struct{}{}
			tiertest.Eventually(t, patience, func() (bool, string) {
				info, err := jobs.Get(t.Context(), id)
				return err == nil && info.State == queue.Dead, string(info.State)
			})
			check()
			stop()
			require.NoError(t, <-ended)
		}
		require.NoError(t, jobs.Close(context.WithoutCancel(t.Context())))
	})
}

// TestNotesAreOfTheHolder: a handler whose job was taken over notes nothing.
func TestNotesAreOfTheHolder(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	name := tiertest.AuditedScope(t, server)
	client := tiertest.Dial(t, server)
	jobs, err := queue.NewClient(client, queue.Config{Queue: name})
	require.NoError(t, err)
	id, err := jobs.Enqueue(t.Context(), queue.Job{})
	require.NoError(t, err)
	workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name})
	require.NoError(t, err)
	noted := make(chan error, 2)
	c, err := consumer.New(consumer.Jobs(workers), func(ctx context.Context, d *consumer.Delivery) error {
		noted <- d.Progress(ctx, []byte("mine"))
		row := server.Command(t, "HGET", tier.Queue(name).JobsKey(), id.String())
		text, _ := row.ToString()
		entry, lane, _ := strings.Cut(text, " ")
		server.Command(t, "XCLAIM", tier.Queue(name).LaneKey(lane), "w", "another", "0", entry, "JUSTID")
		noted <- d.Progress(ctx, []byte("late"))
		return nil
	}, consumer.Config{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	require.NoError(t, get(t, noted))
	require.ErrorIs(t, get(t, noted), consumer.ErrLeaseLost)
	n, err := jobs.Notes(t.Context(), id)
	if !errors.Is(err, queue.ErrNoJob) { // its handler has returned, and it may be settled
		require.NoError(t, err)
		require.Equal(t, "mine", string(n.Progress))
	}
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, jobs.Close(context.WithoutCancel(t.Context())))
}

// TestNoNotesOfMessages: a message of a stream is no job.
func TestNoNotesOfMessages(t *testing.T) {
	t.Parallel()
	var d consumer.Delivery
	require.ErrorIs(t, d.Progress(t.Context(), nil), consumer.ErrNoNotes)
	require.ErrorIs(t, d.Log(t.Context(), "x"), consumer.ErrNoNotes)
}

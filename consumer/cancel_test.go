package consumer_test

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// cancels is a queue whose handlers wait until they are told to end.
type cancels struct {
	t       *testing.T
	jobs    *queue.Client
	workers *queue.Workers
	entered chan codec.ID
	causes  chan error
}

// newCancels has a queue at the server, and workers by a client of their own.
func newCancels(t *testing.T, server *tiertest.Server, client *tier.Client, lease time.Duration) *cancels {
	c := &cancels{t: t, entered: make(chan codec.ID, 10), causes: make(chan error, 10)}
	name := tiertest.AuditedScope(t, server)
	var err error
	c.jobs, err = queue.NewClient(tiertest.Dial(t, server), queue.Config{Queue: name})
	require.NoError(t, err)
	c.workers, err = queue.NewWorkers(client, queue.WorkersConfig{Queue: name, Lease: lease})
	require.NoError(t, err)
	return c
}

// run runs a consumer until the function that it returns is called.
func (c *cancels) run(source consumer.Source) (stop func()) {
	c.t.Helper()
	w, err := consumer.New(source, func(ctx context.Context, d *consumer.Delivery) error {
		c.entered <- d.ID
		<-ctx.Done()
		c.causes <- context.Cause(ctx)
		return nil
	}, consumer.Config{})
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(c.t, <-ended)
		require.NoError(c.t, c.jobs.Close(context.WithoutCancel(c.t.Context())))
	}
}

func (c *cancels) enqueue(n int) {
	c.t.Helper()
	_, err := c.jobs.EnqueueMany(c.t.Context(), make([]queue.Job, n))
	require.NoError(c.t, err)
}

// cancel cancels a job, and its handler is told.
func (c *cancels) cancel(id codec.ID, reason string) {
	c.t.Helper()
	running, err := c.jobs.Cancel(c.t.Context(), id, reason)
	require.NoError(c.t, err)
	require.True(c.t, running)
	require.Equal(c.t, &consumer.CancelledError{Reason: reason}, get(c.t, c.causes))
}

var idOfClient = regexp.MustCompile(`(?m)^id=(\d+) .*`)

// TestCancelAtOnce: a handler is told that its job is cancelled long before its lease is renewed, and so after the connection that
// it is told on was killed; what is cancelled meanwhile, it learns when there is another. (18 resubscribe.)
func TestCancelAtOnce(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		name := tiertest.Scope(t)
		client, err := tier.Dial(t.Context(), server.URL(), tier.Options{ClientName: name})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		c := newCancels(t, server, client, time.Hour)
		stop := c.run(consumer.Jobs(c.workers))
		c.enqueue(4)
		listener := func() (id string) {
			tiertest.Eventually(t, patience, func() (bool, string) {
				reply := server.Command(t, "CLIENT", "LIST", "TYPE", "pubsub")
				list, _ := reply.ToString()
				for _, line := range idOfClient.FindAllStringSubmatch(list, -1) {
					if regexp.MustCompile(` name=` + name + ` .* ssub=1 `).MatchString(line[0]) {
						id = line[1]
					}
				}
				return id != "", list
			})
			return id
		}
		first := listener()
		c.cancel(get(t, c.entered), "before")
		killed := server.Command(t, "CLIENT", "KILL", "ID", first)
		n, _ := killed.AsInt64()
		require.EqualValues(t, 1, n)
		c.cancel(get(t, c.entered), "meanwhile")
		require.NotEqual(t, first, listener())
		c.cancel(get(t, c.entered), "after")
		c.cancel(get(t, c.entered), "again")
		stop()
	})
}

// TestCancelByRenewal: a worker that may not listen learns it with its next renewal.
func TestCancelByRenewal(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind)
			u := tiertest.NewUser(t, []*tiertest.Server{server}, "~*", "+@all") // and no channel
			client, err := tier.Dial(t.Context(), u.At(server), tier.Options{})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			c := newCancels(t, server, client, queue.MinLease)
			stop := c.run(consumer.Jobs(c.workers))
			c.enqueue(1)
			c.cancel(get(t, c.entered), "not wanted")
			stop()
		})
	}
}

// late is a source whose reads are long under way.
type late struct {
	*queue.Workers
	listens, heard chan struct{}
	claimed        func(tier.Leased) // before the answer is there
}

func (s late) Join(ctx context.Context, prefix string) (consumer.Member, error) {
	m, err := s.Workers.Join(ctx, prefix)
	return lateMember{m, s}, err
}

type lateMember struct {
	*queue.Member
	late
}

func (m lateMember) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	leased, err := m.Member.Read(ctx, n, wait)
	if len(leased) > 0 {
		m.claimed(leased[0])
	}
	return leased, err
}

func (m lateMember) Listen(ctx context.Context, missed func(), cancelled func(codec.EntryID)) error {
	return m.Member.Listen(ctx, func() { missed(); close(m.listens) }, func(e codec.EntryID) { cancelled(e); close(m.heard) })
}

// TestCancelUnderWay: a job that is cancelled before the answer that brings it is there is told of at once, too.
func TestCancelUnderWay(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	c := newCancels(t, server, tiertest.Dial(t, server), time.Hour)
	var once sync.Once
	source := late{Workers: c.workers, listens: make(chan struct{}), heard: make(chan struct{})}
	source.claimed = func(l tier.Leased) {
		once.Do(func() {
			running, err := c.jobs.Cancel(t.Context(), l.Records[0].ID, "too late")
			require.NoError(t, err)
			require.True(t, running)
			<-source.heard
			<-time.After(50 * time.Millisecond) // whoever looks for the job at once does not find it
		})
	}
	stop := c.run(source)
	get(t, source.listens)
	c.enqueue(1)
	require.Equal(t, &consumer.CancelledError{Reason: "too late"}, get(t, c.causes))
	stop()
}

// TestCancelledWithoutAWorker: whoever takes a job over that was cancelled while nobody had it any more is told at once.
func TestCancelledWithoutAWorker(t *testing.T) {
	t.Parallel()
	server := tiertest.Shared(t, tiertest.Valkey)
	c := newCancels(t, server, tiertest.Dial(t, server), time.Hour)
	before, err := c.workers.Join(t.Context(), "before")
	require.NoError(t, err)
	c.enqueue(1)
	leased, err := before.Read(t.Context(), 1, 0)
	require.NoError(t, err)
	require.Len(t, leased, 1)
	source := late{Workers: c.workers, listens: make(chan struct{}), heard: make(chan struct{}), claimed: func(tier.Leased) {}}
	stop := c.run(source)
	get(t, source.listens)
	running, err := c.jobs.Cancel(t.Context(), leased[0].Records[0].ID, "nobody heard")
	require.NoError(t, err)
	require.True(t, running)
	require.NoError(t, before.Release(t.Context(), []tier.Returned{{Held: tier.Held{Entry: leased[0].Entry}}}, 0))
	require.Equal(t, &consumer.CancelledError{Reason: "nobody heard"}, get(t, c.causes))
	stop()
	require.NoError(t, before.Leave(t.Context()))
}

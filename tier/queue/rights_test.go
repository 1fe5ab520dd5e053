package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// rules are the rights of a role as docs/security.md has them, for a scope of the test's own.
func rules(t testing.TB, role, scope string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n```acl "+role+"\n")
	require.True(t, found, role)
	block, _, _ = strings.Cut(block, "```")
	return strings.Fields(strings.ReplaceAll(block, "{shop}", "{"+scope+"}"))
}

// roles are what each role does, all of it. Of the fixture, which may everything, it has only the queue.
var roles = map[string]func(f *fixture, client *tier.Client) error{
	"enqueuer":       enqueuerWork,
	"worker":         workerWork,
	"scheduler":      schedulerWork,
	"queue-operator": operatorWork,
}

func enqueuerWork(f *fixture, client *tier.Client) error {
	jobs, err := queue.NewClient(client, queue.Config{Queue: string(f.queue)})
	if err != nil {
		return err
	}
	u := queue.Unique{Key: "k", Conflict: queue.Replace}
	receipts, err := jobs.EnqueueMany(f.ctx, []queue.Job{{}, {Delay: time.Hour}, {Unique: u, Terms: tier.Terms{Keep: time.Hour}}})
	if err != nil {
		return err
	}
	for _, r := range receipts {
		if _, err := jobs.Get(f.ctx, r.ID); err != nil {
			return err
		}
		if err := errors.Join(jobs.Update(f.ctx, r.ID, codec.Message{}), jobs.Progress(f.ctx, r.ID, nil)); err != nil {
			return err
		}
		if _, err := jobs.Notes(f.ctx, r.ID); err != nil {
			return err
		}
	}
	if _, err := jobs.Enqueue(f.ctx, queue.Job{Unique: u, Terms: tier.Terms{Keep: time.Hour}}); err != nil {
		return err
	}
	if _, err := jobs.Counts(f.ctx); err != nil {
		return err
	}
	flow, err := jobs.EnqueueFlow(f.ctx, queue.FanIn(queue.Job{Lane: "flow"}, queue.Job{Delay: time.Hour}))
	if err != nil {
		return err
	}
	if _, err := jobs.Children(f.ctx, flow); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := jobs.Wait(f.ctx, receipts[2].ID)
		ended <- err
	}()
	m := f.join(f.workers)
	tiertest.Eventually(f.t, time.Minute, func() (bool, string) {
		m := f.do("CLIENT", "LIST")
		list, _ := m.ToString()
		return strings.Contains(list, "cmd=blmove") || len(ended) > 0, list
	})
	if f.settle(m, f.read(m, 2)...); true {
		err = <-ended
	}
	return errors.Join(err, jobs.Close(f.ctx))
}

func workerWork(f *fixture, client *tier.Client) error {
	w, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: string(f.queue), Lease: lease})
	if err != nil {
		return err
	}
	f.enqueue("a", "a", "b", "b")
	other, err := f.newWorkers(lease).Join(f.ctx, "other")
	if err != nil {
		return err
	}
	f.read(other, 1)
	f.age("a")
	m, err := w.Join(f.ctx, "w")
	if err != nil {
		return err
	}
	var leased []tier.Leased
	for taken := (tier.Taken{}); !taken.Done; leased = append(leased, taken.Leased...) {
		if taken, err = m.TakeOver(f.ctx, 10, 0); err != nil {
			return err
		}
	}
	more, err := m.Read(f.ctx, 10, 0)
	if err != nil {
		return err
	}
	leased = append(leased, more...)
	if len(leased) != 4 {
		return fmt.Errorf("%d jobs", len(leased))
	}
	listening, heard := context.WithCancel(f.ctx)
	defer heard()
	if err := m.Listen(listening, heard, func(codec.EntryID) {}); err != nil {
		return err
	}
	if _, err := m.Renew(f.ctx, entriesOf(leased)); err != nil {
		return err
	}
	if err := errors.Join(m.Progress(f.ctx, leased[0].Entry, []byte("1")), m.Log(f.ctx, leased[0].Entry, "x")); err != nil {
		return err
	}
	if _, err := m.Settle(f.ctx, entriesOf(leased[:1])); err != nil {
		return err
	}
	if err := m.Commit(f.ctx, []tier.Ending{again(leased[1], 0), dead(leased[2], "no")}); err != nil {
		return err
	}
	if _, err := m.Sync(f.ctx); err != nil {
		return err
	}
	if err := m.Release(f.ctx, entryOf(leased[3], 1), 0); err != nil {
		return err
	}
	if more, err = m.Read(f.ctx, 10, 0); err != nil {
		return err
	}
	if _, err := m.Settle(f.ctx, entriesOf(more)); err != nil {
		return err
	}
	if _, err := m.Read(f.ctx, 1, 200*time.Millisecond); err != nil {
		return err
	}
	jobs, err := queue.NewClient(client, queue.Config{Queue: string(f.queue)})
	if err != nil {
		return err
	}
	f.flow(queue.Chain(queue.Job{}, queue.Job{Delay: time.Hour}))
	if more, err = m.Read(f.ctx, 10, time.Second); err != nil {
		return err
	}
	f.undelivered(func() { _, err = m.Settle(f.ctx, entriesOf(more)) })
	return errors.Join(err, jobs.Forward(f.ctx), m.Retire(f.ctx), m.Leave(f.ctx))
}

func schedulerWork(f *fixture, client *tier.Client) error {
	jobs, err := queue.NewClient(client, queue.Config{Queue: string(f.queue)})
	if err != nil {
		return err
	}
	s := queue.NewSchedules(jobs)
	often := queue.Schedule{Name: "often", Every: time.Millisecond, Job: queue.Job{Unique: queue.Unique{Key: "k"}}}
	if err := s.Declare(f.ctx, "set", often, queue.Schedule{Name: "never", Every: 1000 * time.Hour}); err != nil {
		return err
	}
	f.join(f.workers) // whom the bell wakes
	var next time.Time
	for moved := 0; moved < 3; { // declared, fired, and not fired, since the first job has the key
		list, err := s.List(f.ctx)
		if err != nil {
			return err
		}
		if at := list[1].Next; !at.Equal(next) {
			next, moved = at, moved+1
		}
		if _, err := s.Fire(f.ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.Declare(f.ctx, "set", often), jobs.Close(f.ctx))
}

func operatorWork(f *fixture, client *tier.Client) error {
	jobs, err := queue.NewClient(client, queue.Config{Queue: string(f.queue)})
	if err != nil {
		return err
	}
	ids := f.enqueue("a", "a", "a", "b")
	m := f.join(f.workers)
	leased := f.read(m, 2)
	f.commit(m, dead(leased[0], "no"))
	_, err1 := jobs.SetLane(f.ctx, "a", 2, 3)
	_, err2 := jobs.SetLane(f.ctx, "a", 1, -1)
	err3 := queue.Check(f.ctx, client, string(f.queue))
	_, err4 := jobs.Retry(f.ctx, ids[0])
	_, err5 := jobs.Cancel(f.ctx, ids[0], "")
	_, err6 := jobs.Cancel(f.ctx, idOf(leased[1]), "")
	err6 = errors.Join(err6, jobs.Move(f.ctx, ids[1], "c"), jobs.Update(f.ctx, ids[1], codec.Message{}), jobs.Progress(f.ctx, ids[1], nil))
	_, err9 := jobs.Notes(f.ctx, ids[1])
	flow := queue.Chain(queue.Job{Delay: time.Hour}, queue.Job{})
	f.flow(flow)
	f.undelivered(func() { err6 = errors.Join(err6, jobs.Remove(f.ctx, flow.Children[0].ID)) })
	err6 = errors.Join(err6, jobs.Forward(f.ctx))
	_, err7 := jobs.Drain(f.ctx)
	_, err8 := jobs.Overview(f.ctx)
	for _, err := range jobs.List(f.ctx, queue.Selection{}) {
		err8 = errors.Join(err8, err)
	}
	for _, err := range jobs.Lanes(f.ctx) {
		err8 = errors.Join(err8, err)
	}
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, jobs.Pause(f.ctx)); err != nil {
		return err
	}
	if _, err := jobs.Obliterate(f.ctx, string(f.queue)); err != nil {
		return err
	}
	return errors.Join(jobs.Resume(f.ctx), jobs.DeclareEvents(f.ctx, 100))
}

// slower are commands without which a role does all its work, and others only learn of it later.
var slower = map[string]string{"queue-operator": "+spublish"}

// TestRights (B149): each role does its work with exactly the rights that docs/security.md gives it, and without any one of
// the commands something is refused for good.
func TestRights(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for role, do := range roles {
			t.Run(fmt.Sprint(role, ", ", kind), func(t *testing.T) {
				t.Parallel()
				s := tiertest.Private(t, kind)
				without := func(right string) error {
					f := setUp(t, s)
					f.do("SCRIPT", "FLUSH")
					has := slices.DeleteFunc(rules(t, role, string(f.queue)), func(r string) bool { return r == right })
					user := tiertest.NewUser(t, []*tiertest.Server{s}, has...)
					client, err := tier.Dial(f.ctx, user.At(s), tier.Options{})
					if err != nil {
						return err
					}
					defer client.Close()
					return do(f, client)
				}
				require.NoError(t, without(""))
				require.NoError(t, without(slower[role]))
				if kind == tiertest.Redis {
					return // that none of them is needless is the same to both
				}
				var wrong []string // all at once: who changes a script sees what its roles need
				for _, right := range rules(t, role, "s") {
					if err := without(right); right[0] == '+' && right != slower[role] && !errors.Is(err, tier.ErrPermission) {
						wrong = append(wrong, fmt.Sprintf("%s: %v", right, err))
					}
				}
				require.Empty(t, wrong)
			})
		}
	}
}

package soak_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// replay is what the events of a queue come to.
type replay struct {
	d      *drill
	states map[codec.ID]queue.State // as of the last event of each job
	active map[string]int           // by lanes; "" of all of them
	of     map[string]codec.ID      // who has a unique key
	fired  int
}

// audit compares the events of the queues with what was enqueued, and returns how many jobs the schedule has made.
func (d *drill) audit(client *tier.Client) (fired int) {
	states := map[codec.ID]queue.State{}
	for i, name := range d.queues {
		require.NoError(d.t, queue.Check(context.Background(), client, name))
		r := &replay{d: d, states: states, active: map[string]int{}, of: map[string]codec.ID{}}
		r.read(client, name, i == 0)
		fired += r.fired
	}
	for id, dies := range d.dies {
		want := queue.Done
		if dies {
			want = queue.Dead
		}
		require.Equal(d.t, want, states[id], "%s", id)
	}
	dead := 0
	for id, state := range states {
		require.Contains(d.t, []queue.State{queue.Done, queue.Dead}, state, "%s", id)
		if state == queue.Dead {
			dead++
		}
	}
	require.Len(d.t, states, len(d.dies)+fired)
	for _, jobs := range d.jobs {
		counts, err := jobs.Counts(context.Background())
		require.NoError(d.t, err)
		dead -= int(counts.Dead)
	}
	require.Zero(d.t, dead, "events and queues differ in who is dead")
	return fired
}

func (r *replay) read(client *tier.Client, name string, limited bool) {
	reader, err := stream.NewReader(client, stream.ReaderConfig{Address: name + "/jobs.events"})
	require.NoError(r.d.t, err)
	for record, err := range reader.Range(context.Background(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(r.d.t, err)
		require.NoError(r.d.t, record.Err)
		events, err := queue.DecodeEvents(&record.Message)
		require.NoError(r.d.t, err)
		lanes := map[string]bool{}
		for i := range events {
			r.happened(&events[i])
			lanes[events[i].Lane] = true
		}
		if !limited {
			continue
		}
		require.LessOrEqual(r.d.t, r.active[""], jobsCeiling)
		for lane := range jobsLanes {
			if name := laneName(lane); lanes[name] {
				require.LessOrEqual(r.d.t, r.active[name], laneCeiling(lane), "%s at %s", name, record.Position)
			}
		}
	}
}

// happened moves a job from where it was.
func (r *replay) happened(e *queue.Event) {
	was := r.states[e.Job]
	if was == "" {
		was = queue.Absent
	}
	require.Equal(r.d.t, was, e.From, "%s becomes %s", e.Job, e.To)
	require.NotEqual(r.d.t, queue.Done, was, "%s is done, and becomes %s", e.Job, e.To)
	r.states[e.Job] = e.To
	for state, change := range map[queue.State]int{e.From: -1, e.To: 1} {
		if state == queue.Active && e.From != e.To {
			r.active[""] += change
			r.active[e.Lane] += change
		}
	}
	if e.Reason == "fired" {
		r.fired++
	}
	key := r.d.keys[e.Job]
	switch {
	case key == "":
	case e.From == queue.Absent:
		require.Zero(r.d.t, r.of[key], "of %s there are two jobs", key)
		r.of[key] = e.Job
	case e.To == queue.Done || e.To == queue.Dead:
		require.Equal(r.d.t, e.Job, r.of[key])
		delete(r.of, key)
	}
}

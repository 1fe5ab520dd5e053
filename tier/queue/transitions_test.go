package queue_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// transition is a script under test: how Go calls it, and what it leaves behind. It starts from a scene.
type transition struct {
	oom                   bool // runs on a full server
	prepare               func(*scene)
	call                  func(*scene) (string, error) // through Go; what Go answers, in words
	before, after, answer string                       // states, and of call
	again                 string                       // the answer when the first reply was lost and the caller repeats it; empty: the same
}

// scene is a queue with four jobs, of which the member "me" was given the first of each lane; the last one is scheduled. It tells
// what becomes of them.
type scene struct {
	*fixture
	me, other *queue.Member
	mine      []tier.Leased
	ids       []codec.ID
}

const (
	sceneStart  = "me:1 me:1 ready scheduled members 2"
	sceneEvents = 1000
)

func newScene(f *fixture) *scene {
	require.NoError(f.t, f.jobs.DeclareEvents(f.ctx, sceneEvents))
	s := &scene{fixture: f, ids: f.enqueue("x", "y", "x")}
	id, err := f.jobs.Enqueue(f.ctx, queue.Job{Lane: "x", Delay: time.Hour})
	require.NoError(f.t, err)
	s.ids = append(s.ids, id)
	s.me, s.other = f.join(f.workers), f.join(f.workers)
	s.mine = f.read(s.me, 2)
	return s
}

// state is what the server holds, without what differs from run to run.
func (s *scene) state() string {
	names := map[string]string{s.me.Name(): "me", s.other.Name(): "other"}
	var words []string
	for _, id := range s.ids {
		info, err := s.jobs.Get(s.ctx, id)
		switch {
		case err != nil:
			require.ErrorIs(s.t, err, queue.ErrNoJob)
			words = append(words, "done")
		case info.State == queue.Active:
			word := fmt.Sprintf("%s:%d", names[info.Worker], info.Attempts)
			if info.Idle >= lease {
				word += ":idle"
			}
			words = append(words, word)
		default:
			words = append(words, string(info.State))
		}
	}
	members, err := strconv.Atoi(s.text("HLEN", s.queue.WorkersKey()))
	require.NoError(s.t, err)
	words = append(words, fmt.Sprintf("members %d", members/2))
	for _, d := range s.declared(queue.NewSchedules(s.jobs)) {
		switch {
		case !d.Last.IsZero():
			words = append(words, d.Name+" fired")
		case d.Next.UnixMilli() == 1000:
			words = append(words, d.Name+" due")
		default:
			words = append(words, d.Name)
		}
	}
	if n := s.text("HGET", s.queue.QueueKey(), tier.EventsField); n != strconv.Itoa(sceneEvents) {
		words = append(words, "events "+n)
	}
	return strings.Join(words, " ")
}

// transitions has a row for each script.
var transitions = map[string]transition{
	"enqueue": {prepare: func(s *scene) {
		s.jobs = s.newClient(queue.Config{})
		s.ids = append(s.ids, s.minted())
	}, call: func(s *scene) (string, error) {
		receipts, err := s.jobs.EnqueueMany(s.ctx, []queue.Job{{ID: s.ids[4]}, {ID: s.ids[0]}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(receipts[0].Err, receipts[1].Err), nil
	}, before: "me:1 me:1 ready scheduled done members 2", after: "me:1 me:1 ready scheduled ready members 2", answer: "<nil> " + queue.ErrDuplicate.Error()},
	"enqueue_flow": {prepare: func(s *scene) {
		s.ids = append(s.ids, s.minted(), s.minted())
	}, call: func(s *scene) (string, error) {
		_, err := s.jobs.EnqueueFlow(s.ctx, &queue.Flow{Job: queue.Job{ID: s.ids[4]}, Children: []*queue.Flow{{Job: queue.Job{ID: s.ids[5]}}}})
		return "", err
	}, before: sceneStart[:len(sceneStart)-9] + "done done members 2", after: sceneStart[:len(sceneStart)-9] + "waiting scheduled members 2"},
	"note": {prepare: func(s *scene) {
		flows := []*queue.Flow{queue.Chain(jobOf("a"), jobOf("b")), queue.Chain(jobOf("c"), jobOf("d"))}
		for _, f := range flows {
			s.ids = append(s.ids, s.flow(f), f.Children[0].ID)
		}
		leased := s.take(s.other, 3)
		s.undelivered(func() {
			s.settle(s.other, leased[1])
			s.commit(s.other, dead(leased[2], "no"))
		})
	}, call: func(s *scene) (string, error) {
		s.strand()
		return "", s.jobs.Forward(s.ctx)
	}, before: "me:1 me:1 other:1 scheduled waiting done waiting dead members 2", after: "me:1 me:1 other:1 scheduled scheduled done dead dead members 2"},
	"claim": {oom: true, prepare: func(s *scene) { // it knows the lanes
		s.commit(s.other, again(s.read(s.other, 1)[0], 0))
		_, err := s.other.Due(s.ctx, 10)
		require.NoError(s.t, err)
	}, call: func(s *scene) (string, error) {
		leased, err := s.other.Read(s.ctx, 10, 0)
		return fmt.Sprint(len(leased)), err
	}, after: "me:1 me:1 other:2 scheduled members 2", answer: "1", again: "0"},
	"settle": {oom: true, call: func(s *scene) (string, error) {
		n, err := s.me.Settle(s.ctx, entriesOf(s.mine))
		return fmt.Sprint(n), err
	}, after: "done done ready scheduled members 2", answer: "2", again: "0"},
	"commit": {call: func(s *scene) (string, error) {
		return "", s.me.Commit(s.ctx, []tier.Ending{again(s.mine[0], time.Hour), dead(s.mine[1], "no")})
	}, after: "retry dead ready scheduled members 2"},
	"promote": {prepare: func(s *scene) {
		s.commit(s.me, again(s.mine[0], 0))
		s.commit(s.me, again(s.mine[1], time.Hour))
	}, call: func(s *scene) (string, error) {
		_, err := s.me.Due(s.ctx, 10)
		return "", err
	}, before: "retry retry ready scheduled members 2", after: "ready retry ready scheduled members 2"},
	"takeover": {oom: true, prepare: func(s *scene) {
		s.age("x")
		s.age("y")
		_, err := s.other.TakeOver(s.ctx, 10, 0) // it knows what is due
		require.NoError(s.t, err)
	}, call: func(s *scene) (string, error) {
		n := 0
		for {
			taken, err := s.other.TakeOver(s.ctx, 10, 0)
			if n += len(taken.Leased); err != nil || taken.Done {
				return fmt.Sprint(n), err
			}
		}
	}, before: "me:1:idle me:1:idle ready scheduled members 2", after: "other:2 other:2 ready scheduled members 2", answer: "2", again: "0"},
	"renew": {oom: true, prepare: func(s *scene) { s.age("x"); s.age("y") }, call: func(s *scene) (string, error) {
		gone, err := s.me.Renew(s.ctx, entriesOf(s.mine))
		return fmt.Sprint(len(gone)), err
	}, before: "me:1:idle me:1:idle ready scheduled members 2", after: sceneStart, answer: "0"},
	"release": {oom: true, call: func(s *scene) (string, error) {
		return "", s.me.Release(s.ctx, []tier.Returned{{Held: tier.Held{Entry: s.mine[0].Entry}}}, 0)
	}, after: "me:0:idle me:1 ready scheduled members 2"},
	"sync": {
		oom: true, prepare: func(s *scene) { s.do("HDEL", s.queue.WorkersKey(), s.me.Name(), tier.BeatField(s.me.Name())) },
		call: func(s *scene) (string, error) {
			held, err := s.me.Sync(s.ctx)
			return fmt.Sprint(len(held)), err
		}, before: "me:1 me:1 ready scheduled members 1", after: sceneStart, answer: "2",
	},
	"leave": {oom: true, call: func(s *scene) (string, error) { return "", s.other.Leave(s.ctx) }, after: "me:1 me:1 ready scheduled members 1"},
	"retire": {
		oom: true, prepare: func(s *scene) { s.do("HSET", s.queue.WorkersKey(), tier.BeatField(s.other.Name()), "1000") },
		call: func(s *scene) (string, error) { return "", s.me.Retire(s.ctx) }, after: "me:1 me:1 ready scheduled members 1",
	},
	"counts": {oom: true, call: func(s *scene) (string, error) {
		counts, err := s.jobs.Counts(s.ctx)
		return fmt.Sprint(counts), err
	}, after: sceneStart, answer: "{1 2 1 0 0}"},
	"list": {oom: true, call: func(s *scene) (string, error) { return listing(s.jobs.List(s.ctx, queue.Selection{})) }, after: sceneStart, answer: "active ready active scheduled"},
	"lanes": {oom: true, call: func(s *scene) (string, error) {
		var words []string
		for l, err := range s.jobs.Lanes(s.ctx) {
			if err != nil {
				return "", err
			}
			words = append(words, fmt.Sprint(l.Name, l.Ready, l.Active))
		}
		return strings.Join(words, " "), nil
	}, after: sceneStart, answer: "x1 1 y0 1"},
	"schedules": {oom: true, prepare: declareReport, call: func(s *scene) (string, error) {
		list, err := queue.NewSchedules(s.jobs).List(s.ctx)
		return fmt.Sprint(len(list)), err
	}, before: sceneStart + " report", after: sceneStart + " report", answer: "1"},
	"declare": {call: func(s *scene) (string, error) {
		return "", queue.NewSchedules(s.jobs).Declare(s.ctx, "app", nightly("report"))
	}, after: sceneStart + " report"},
	"fire": {prepare: func(s *scene) {
		declareReport(s)
		s.do("ZADD", s.queue.OccurrencesKey(), "1000", "report")
	}, call: func(s *scene) (string, error) {
		_, err := queue.NewSchedules(s.jobs).Fire(s.ctx)
		if err != nil {
			return "", err
		}
		counts, err := s.jobs.Counts(s.ctx)
		return fmt.Sprint(counts.Scheduled), err
	}, before: sceneStart + " report due", after: sceneStart + " report fired", answer: "2"}, // jobs, once
	"pause_queue": {oom: true, call: func(s *scene) (string, error) { return s.paused(s.jobs.Pause(s.ctx)) }, after: sceneStart, answer: "true"},
	"resume_queue": {oom: true, prepare: func(s *scene) { require.NoError(s.t, s.jobs.Pause(s.ctx)) }, call: func(s *scene) (string, error) {
		return s.paused(s.jobs.Resume(s.ctx))
	}, after: sceneStart, answer: "false"},
	"configure_lane": {oom: true, call: func(s *scene) (string, error) {
		lane, err := s.jobs.SetLane(s.ctx, "x", 2, 3)
		return fmt.Sprint(lane.Weight, lane.Ceiling, s.text("HGET", s.queue.LanesKey(), "x") == "2 3 0"), err
	}, after: sceneStart, answer: "2 3 true"},
	"set_ceiling": {oom: true, call: func(s *scene) (string, error) {
		err := s.jobs.SetCeiling(s.ctx, 3)
		return s.text("HGET", s.queue.ActiveKey(), ""), err
	}, after: sceneStart, answer: "2 3"},
	"remove": {oom: true, call: func(s *scene) (string, error) {
		if err := s.jobs.Remove(s.ctx, s.ids[2]); !errors.Is(err, queue.ErrNoJob) { // of a repetition
			return "", err
		}
		return "", nil
	}, after: "me:1 me:1 done scheduled members 2"},
	"requeue": {oom: true, prepare: func(s *scene) { s.commit(s.me, dead(s.mine[0], "no")) }, call: func(s *scene) (string, error) {
		retried, err := s.jobs.Retry(s.ctx, s.ids...)
		return fmt.Sprint(len(retried)), err
	}, before: "dead me:1 ready scheduled members 2", after: "retry me:1 ready scheduled members 2", answer: "1", again: "0"},
	"drain": {oom: true, call: func(s *scene) (string, error) {
		n, err := s.jobs.DrainLane(s.ctx, "x")
		return fmt.Sprint(n), err
	}, after: "me:1 me:1 done scheduled members 2", answer: "1", again: "0"},
	"move": {call: func(s *scene) (string, error) {
		if err := s.jobs.Move(s.ctx, s.ids[2], "z"); err != nil {
			return "", err
		}
		return s.get(s.ids[2]).Lane, nil
	}, after: sceneStart, answer: "z"},
	"update": {call: func(s *scene) (string, error) {
		if err := s.update(s.ids[2], "new"); err != nil {
			return "", err
		}
		if err := s.update(s.ids[3], "new"); err != nil {
			return "", err
		}
		return string(s.get(s.ids[2]).Message.Data) + " " + string(s.get(s.ids[3]).Message.Data), nil
	}, after: sceneStart, answer: "new new"},
	"annotate": {call: func(s *scene) (string, error) {
		if err := s.me.Log(s.ctx, s.mine[0].Entry, "x"); err != nil {
			return "", err
		}
		n, err := s.jobs.Notes(s.ctx, s.ids[0])
		return noted{n}.text(), err
	}, after: sceneStart, answer: "x"},
	"obliterate": {oom: true, prepare: func(s *scene) { require.NoError(s.t, s.jobs.Pause(s.ctx)) }, call: func(s *scene) (string, error) {
		_, err := s.jobs.Obliterate(s.ctx, string(s.queue))
		if errors.Is(err, queue.ErrNotPaused) { // of a repetition
			err = nil
		}
		return "", err
	}, after: "done done done done members 0 events "},
	"declare_events": {call: func(s *scene) (string, error) {
		return "", s.jobs.DeclareEvents(s.ctx, 5)
	}, after: sceneStart + " events 5"},
	"audit_jobs": {oom: true, call: audited, after: sceneStart},
	"audit_lane": {oom: true, call: audited, after: sceneStart},
}

func declareReport(s *scene) {
	require.NoError(s.t, queue.NewSchedules(s.jobs).Declare(s.ctx, "app", nightly("report")))
}

// paused says whether the queue is.
func (s *scene) paused(err error) (string, error) {
	return strconv.FormatBool(s.text("HGET", s.queue.QueueKey(), "paused") != ""), err
}

func audited(s *scene) (string, error) { return "", queue.Check(s.ctx, s.client, string(s.queue)) }

// minted is an id of the test's own.
func (f *fixture) minted() codec.ID {
	f.t.Helper()
	lease, err := f.client.LeaseNode(f.ctx)
	require.NoError(f.t, err)
	id, err := lease.Mint().Next(queue.Brand)
	require.NoError(f.t, err)
	require.NoError(f.t, lease.Release(f.ctx))
	return id
}

func (row transition) begin(f *fixture) *scene {
	s := newScene(f)
	if row.prepare != nil {
		row.prepare(s)
	}
	if row.before == "" {
		row.before = sceneStart
	}
	require.Equal(f.t, row.before, s.state())
	return s
}

// TestTransitions (B144) calls each script through Go, on every server, a cluster too: what it answers and what it leaves
// behind. A script without a row fails.
func TestTransitions(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		eachTransition(t, func(t *testing.T, _ tiertest.Source, row transition) {
			sc := row.begin(setUp(t, s))
			answer, err := row.call(sc)
			require.NoError(t, err)
			require.Equal(t, row.answer, answer)
			require.Equal(t, row.after, sc.state())
		})
	})
}

func eachTransition(t *testing.T, f func(t *testing.T, src tiertest.Source, row transition)) {
	t.Helper()
	all := sources(t)
	for name, src := range all {
		require.Contains(t, transitions, name, "the script has no row in transitions")
		t.Run(name, func(t *testing.T) { f(t, src, transitions[name]) })
	}
	require.Len(t, transitions, len(all), "a row without a script")
}

// TestTransitionsThroughFaults (B74): a script whose reply is lost, or whose request is, and that the caller repeats
// until it is answered, has had its effect once.
func TestTransitionsThroughFaults(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind)
			for fault, inject := range map[string]func(*tiertest.Proxy, int, func([]string) bool){
				"reply lost": (*tiertest.Proxy).DropReplies, "request lost": (*tiertest.Proxy).DropRequests,
			} {
				if kind == tiertest.Redis && fault == "request lost" {
					continue // which no server sees
				}
				t.Run(fault, func(t *testing.T) {
					eachTransition(t, func(t *testing.T, src tiertest.Source, row transition) {
						f, proxy := setUpProxied(t, server)
						s := row.begin(f)
						f.do("SCRIPT", "LOAD", src.Text)
						inject(proxy, 1, src.Runs())
						answer, err := row.call(s)
						again := err != nil
						if again {
							require.True(t, tier.OutcomeUnknown(err), "%v", err)
							answer, err = row.call(s)
						}
						require.NoError(t, err)
						require.Equal(t, 1, proxy.Dropped())
						want := row.answer
						if row.again != "" && again && fault == "reply lost" {
							want = row.again
						}
						require.Equal(t, want, answer)
						require.Equal(t, row.after, s.state())
					})
				})
			}
		})
	}
}

// TestTransitionsWhileMoving (B145): a script that is called while its slot is on its way to another node of a cluster is
// done whole, or refused before it has done anything, and done when the slot is at rest.
func TestTransitionsWhileMoving(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.ValkeyCluster, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind)
			to := server.Neighbour(t)
			eachTransition(t, func(t *testing.T, src tiertest.Source, row transition) {
				if !src.Empties() {
					return // all its keys are there until it ends
				}
				f, proxy := setUpProxied(t, server)
				s := row.begin(f)
				before := s.state()
				f.do("SCRIPT", "LOAD", src.Text)
				moving := proxy.MoveDuring(t, src, to)
				_, err := row.call(s)
				moving.Rest()
				require.True(t, moving.Begun)
				if err != nil {
					require.Equal(t, tier.BackOff, tier.Classify(err).Reaction, "%v", err)
					require.False(t, tier.OutcomeUnknown(err), "%v", err)
					if left := s.state(); left != row.after || left == before {
						require.Equal(t, before, left)
						var answer string
						answer, err = row.call(s)
						require.Equal(t, row.answer, answer)
					} else {
						err = nil // of a script behind this one
					}
				}
				require.NoError(t, err)
				require.Equal(t, row.after, s.state())
			})
		})
	}
}

// TestTransitionsWhenFull (B116): on a full server scripts that add nothing work, so that it can be drained; the others are
// refused with no effect.
func TestTransitionsWhenFull(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, kind)
			eachTransition(t, func(t *testing.T, src tiertest.Source, row transition) {
				s := row.begin(setUp(t, server))
				before := s.state()
				s.do("CONFIG", "SET", "maxmemory", "1")
				answer, err := row.call(s)
				s.do("CONFIG", "SET", "maxmemory", "0")
				require.Equal(t, row.oom, tier.NewScript(src.Name, src.Text).AllowsOOM())
				if row.oom {
					require.NoError(t, err)
					require.Equal(t, row.answer, answer)
					require.Equal(t, row.after, s.state())
					return
				}
				require.ErrorIs(t, err, tier.ErrStoreFull)
				require.False(t, tier.OutcomeUnknown(err))
				require.Equal(t, before, s.state())
			})
		})
	}
}

var called = regexp.MustCompile(`call\('([A-Z]+)'(?:, '([A-Z]+)')?`)

// commandsOf are those that a script runs, as the access list has them.
func commandsOf(s tiertest.Source) map[string]bool {
	all := map[string]bool{}
	for _, m := range called.FindAllStringSubmatch(s.Code, -1) {
		name := m[1]
		if name == "XGROUP" || name == "XINFO" {
			name += "|" + m[2]
		}
		all[strings.ToLower(name)] = true
	}
	return all
}

// TestTransitionsRefusedWhole (B149): a script that runs into a missing right has changed nothing.
func TestTransitionsRefusedWhole(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Shared(t, kind)
			u := tiertest.NewUser(t, []*tiertest.Server{server}, "~*", "+@all")
			client := tiertest.Dial(t, addressed(u.At(server)))
			eachTransition(t, func(t *testing.T, src tiertest.Source, row transition) {
				var half []string // all at once: who changes a script sees what it has to ask for first
				for _, command := range slices.Sorted(maps.Keys(commandsOf(src))) {
					f := setUpWith(t, server, client)
					s := row.begin(f)
					before := s.state()
					u.Grant(t, []*tiertest.Server{server}, "-"+command)
					_, err := row.call(s)
					u.Grant(t, []*tiertest.Server{server}, "+@all")
					if err != nil {
						require.ErrorIs(t, err, tier.ErrPermission, command)
						if left := s.state(); left != before {
							half = append(half, command+": "+left)
						}
						_, err = row.call(s)
						require.NoError(t, err)
					}
				}
				require.Empty(t, half)
			})
		})
	}
}

// addressed is a server by its URL.
type addressed string

func (a addressed) URL() string { return string(a) }

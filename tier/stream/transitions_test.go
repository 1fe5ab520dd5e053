package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// transition is a script under test: how Go calls it, and what it leaves behind.
type transition struct {
	oom bool // runs on a full server
	// prepare brings about the state that the script starts from. Do calls it through Go and answers what Go answers, in
	// words. State is what the server holds that the script is about, without what differs from run to run.
	prepare func(f *fixture) (do func() (string, error), state func() string)
	before  string // the state
	after   string // the state
	answer  string // of do
	again   string // the answer when the first call's reply was lost and the caller repeats it; empty: the same
}

// lease is long: nothing ends by itself.
const lease = time.Minute

// transitions has a row for each script.
var transitions = map[string]transition{
	"time": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		return func() (string, error) {
			now, err := f.client.Now(f.ctx, f.log())
			return fmt.Sprint(time.Since(now).Abs() < time.Minute), err
		}, func() string { return "" }
	}, answer: "true"},
	"claim_scope": {prepare: func(f *fixture) (func() (string, error), func() string) {
		scope := f.addr().Scope
		return func() (string, error) {
				n, err := f.client.ScopeNode(f.ctx, scope)
				registered, _ := f.client.RegisteredNode(f.ctx, scope)
				return fmt.Sprint(n == registered), err
			}, func() string {
				n := f.text("HGET", tier.NodesKey, "scope:"+scope)
				return fmt.Sprintf("number %t, scope %t", n != "", n != "" && f.text("HGET", tier.NodesKey, "node:"+n) == scope)
			}
	}, before: "number false, scope false", after: "number true, scope true", answer: "true"},
	"lease_node": {prepare: func(f *fixture) (func() (string, error), func() string) {
		number := -1
		return func() (string, error) {
				l, err := f.client.LeaseNode(f.ctx)
				if err != nil {
					return "", err
				}
				number = l.Number()
				_, err = l.Mint().Next("JOB")
				return "minted", err
			}, func() string {
				if number < 0 {
					return "none"
				}
				_, limit, _ := strings.Cut(f.text("HGET", tier.NodesKey, "node:"+strconv.Itoa(number)), " ")
				ms, _ := strconv.ParseInt(limit, 10, 64)
				return fmt.Sprint(time.UnixMilli(ms).Sub(f.now()).Round(time.Minute))
			}
	}, before: "none", after: "10m0s", answer: "minted"},
	"release_node": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		l, err := f.client.LeaseNode(f.ctx)
		require.NoError(f.t, err)
		_, err = l.Mint().Next("JOB")
		require.NoError(f.t, err)
		return func() (string, error) { return "", l.Release(f.ctx) }, func() string {
			_, limit, _ := strings.Cut(f.text("HGET", tier.NodesKey, "node:"+strconv.Itoa(l.Number())), " ")
			ms, _ := strconv.ParseInt(limit, 10, 64)
			return fmt.Sprint(time.UnixMilli(ms).Sub(f.now()).Round(time.Minute))
		}
	}, before: "10m0s", after: "0s"},
	"declare": {prepare: func(f *fixture) (func() (string, error), func() string) {
		scope := f.addr().Scope
		node, err := f.client.ScopeNode(f.ctx, scope)
		require.NoError(f.t, err)
		return func() (string, error) {
				m, err := f.client.Run(f.ctx, tier.Call{
					Script: script(f.t, "declare"), Keys: []string{tier.ScopeKey(scope)},
					Args: []string{strconv.Itoa(node), "orders", "", "1", "ORD"},
				})
				if err != nil {
					return "", err
				}
				reply, err := m.AsStrSlice()
				return fmt.Sprint(reply), err
			}, func() string {
				return f.text("HGET", tier.ScopeKey(scope), "stream:orders") + f.text("HGET", tier.ScopeKey(scope), "brand:ORD")
			}
	}, before: "", after: "ORDorders", answer: "[ok ORD]"},
	"set_retention": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		f.append(f.writer(stream.WriterConfig{}), 1)
		return func() (string, error) {
				return "", stream.SetRetention(f.ctx, f.client, f.address, stream.Retention{MaxLength: 5, Archive: "file:///a"})
			}, func() string {
				return f.text("HGET", tier.ScopeKey(f.addr().Scope), "retention:orders") + " " + f.text("HGET", f.addr().RetentionKey(), "mark")
			}
	}, before: " ", after: "max-length=5 archive=file:///a 0-0"},
	"choose_segment": sweeping{taken: true, before: "held, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		c, err := s.right.Choose(s.f.ctx, "orders", s.policy, codec.EntryID{}, s.ids[2], -time.Minute)
		return fmt.Sprint(c.From == s.ids[0], c.To == s.ids[2], c.Mark), err
	}, after: "held, 4 entries, dropped , groups 1, to 2", answer: "true true 0-0"}.row(),
	"mark_segment": sweeping{taken: true, prepare: func(s *sweeps) {
		_, err := s.right.Choose(s.f.ctx, "orders", s.policy, codec.EntryID{}, s.ids[2], -time.Minute)
		require.NoError(s.f.t, err)
	}, before: "held, 4 entries, dropped , groups 1, to 2", call: func(s *sweeps) (string, error) {
		moved, err := s.right.Mark(s.f.ctx, "orders", s.policy, s.ids[2], codec.MaxEntryID)
		return fmt.Sprint(moved), err
	}, after: "held, 4 entries, dropped , groups 1, marked 2", answer: "false"}.row(),
	"take_sweep": sweeping{before: "free, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		held, _, err := s.right.Take(s.f.ctx)
		return fmt.Sprint(held), err
	}, after: "held, 4 entries, dropped , groups 1", answer: "true"}.row(),
	"release_sweep": sweeping{taken: true, before: "held, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		return "", s.right.Release(s.f.ctx)
	}, after: "free, 4 entries, dropped , groups 1"}.row(),
	"trim": sweeping{taken: true, before: "held, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		got, err := s.right.Trim(s.f.ctx, "orders", s.policy, stream.Trim{Keep: 1, Exact: true})
		return fmt.Sprint(got), err
	}, after: "held, 3 entries, dropped , groups 1", answer: "{1 false 3 map[]}", again: "{0 false 3 map[]}"}.row(),
	"drop": sweeping{taken: true, before: "held, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		got, err := s.right.Drop(s.f.ctx, "orders", s.policy)
		return fmt.Sprint(got), err
	}, after: "held, 2 entries, dropped 1, groups 1", answer: "{2 false 2 map[g:1]}", again: "{0 false 2 map[]}"}.row(),
	"retire_group": sweeping{taken: true, prepare: func(s *sweeps) {
		s.f.do("XGROUP", "DELCONSUMER", s.f.log(), "g", s.member.Name())
		s.f.do("DEL", s.f.addr().OwnersKey("g"))
		s.f.do("HSET", s.f.addr().RetentionKey(), "silent:g", "1") // since long ago
	}, before: "held, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		retired, _, err := s.right.Retire(s.f.ctx, "orders", s.policy, "g")
		return fmt.Sprint(retired), err
	}, after: "held, 4 entries, dropped , groups 0", answer: "true", again: "false"}.row(),
	"holdings": sweeping{before: "free, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		h, err := stream.HoldingsOf(s.f.ctx, s.f.client, s.f.address)
		floor, _ := h.Floor()
		return fmt.Sprint(floor.Name, " ", floor.Why), err
	}, after: "free, 4 entries, dropped , groups 1", answer: "g unread"}.row(),
	"count_below": sweeping{before: "free, 4 entries, dropped , groups 1", call: func(s *sweeps) (string, error) {
		n, err := stream.CountBelow(s.f.ctx, s.f.client, s.f.address, 100, s.ids[3])
		return fmt.Sprint(n), err
	}, after: "free, 4 entries, dropped , groups 1", answer: "[3]"}.row(),
	"partition_scope": {prepare: func(f *fixture) (func() (string, error), func() string) {
		scope := f.addr().Scope
		number, err := f.client.ScopeNode(f.ctx, scope)
		require.NoError(f.t, err)
		f.t.Cleanup(func() { f.partition(2) }) // whole for the audit
		return func() (string, error) { return f.onScope("partition_scope", scope, "2", "") }, func() string {
			return fmt.Sprint(number >= 0, " ", f.mark(scope))
		}
	}, before: "true |", after: "true 2|", answer: "ok "},
	"partition": {prepare: func(f *fixture) (func() (string, error), func() string) {
		f.partition(2)
		_, err := f.partitioned(stream.WriterConfig{Brand: "ORD"}).Declare(f.ctx)
		require.NoError(f.t, err)
		of, scope := f.addr().Scope, f.in(1).addr().Scope
		f.t.Cleanup(func() { // whole for the audit
			answer, err := f.onScope("partition", scope, of, "1", "2", "2>4")
			require.NoError(f.t, err)
			require.Equal(f.t, "ok ", answer)
		})
		return func() (string, error) { return f.onScope("partition", scope, of, "1", "2>4", "2") }, func() string {
			return strings.TrimPrefix(f.mark(scope), "|"+of) + " " + f.text("HGET", tier.ScopeKey(scope), "stream:orders")
		}
	}, before: " 1 2 ORD partition 1/2", after: " 1 2>4 ORD partition 1/2>4", answer: "ok "},
	"attend": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		f.partition(2)
		cursor, err := stream.NewPartitionedCursor(f.client, stream.CursorConfig{Address: f.address, Name: "g", Start: stream.Head()})
		require.NoError(f.t, err)
		members := f.in(0).addr().MembersKey("g")
		now := f.now().UnixMilli()
		f.do("ZADD", members, strconv.FormatInt(now-time.Hour.Milliseconds(), 10), "silent", strconv.FormatInt(now-1000, 10), "other")
		return func() (string, error) {
				there, n, err := cursor.Attend(f.ctx, "me")
				return fmt.Sprint(there, n), err
			}, func() string {
				return f.text("ZCARD", members) + f.text("ZSCORE", members, "silent")[:min(1, len(f.text("ZSCORE", members, "silent")))]
			}
	}, before: "21", after: "2", answer: "[me other] 2"},
	"append":  appending(1),
	"pack":    appending(2),
	"receipt": inTransaction("receipt", "2", "600000", "stream:orders", "0-0", "0", "2", "2", "1").answers("[ok first 2 1]", "noted", "[again  0 0]"),
	"room":    inTransaction("room", "5", "0-0", "stream:orders").answers("1", "room", "1"),
	"follow":  inTransaction("follow", "9", "5", "1").behind("@ms 10 ms-10 4").answers("1", "followed", "1"),
	"append_if": {prepare: func(f *fixture) (func() (string, error), func() string) {
		w := f.keyedWriter()
		_, err := w.Declare(f.ctx)
		require.NoError(f.t, err)
		return func() (string, error) {
				ids, err := w.AppendIf(f.ctx, keyedMessages("a", "b", "a"), stream.ExpectVersion("a", 0), stream.ExpectVersion("b", 0))
				if err != nil {
					return "", err
				}
				return fmt.Sprint(slices.Equal(ids, idsOf(f.all()))), nil
			}, func() string {
				all := f.all()
				require.Equal(f.t, indexOf(all, "a"), f.index("a"))
				require.Equal(f.t, indexOf(all, "b"), f.index("b"))
				return strconv.Itoa(len(all))
			}
	}, before: "0", after: "3", answer: "true"},
	"append_once": {prepare: func(f *fixture) (func() (string, error), func() string) {
		w := f.writer(stream.WriterConfig{Brand: "ORD"})
		_, err := w.Declare(f.ctx)
		require.NoError(f.t, err)
		return func() (string, error) {
			id, fresh, err := w.AppendOnce(f.ctx, "key", time.Hour, codec.Message{})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(fresh, id == f.all()[0].ID), nil
		}, func() string { return strconv.Itoa(len(f.all())) }
	}, before: "0", after: "1", answer: "true true"},
	"append_exclusive": {prepare: func(f *fixture) (func() (string, error), func() string) {
		w := f.exclusive(f.mint(), "EVT")
		_, err := w.Declare(f.ctx)
		require.NoError(f.t, err)
		return func() (string, error) {
			ids, err := w.AppendBatch(f.ctx, messages(2))
			if err != nil {
				return "", err
			}
			all := f.all()
			return fmt.Sprint(len(ids), ids[0] == all[0].ID, ids[1] == all[1].ID), nil
		}, func() string { return strconv.Itoa(len(f.all())) }
	}, before: "0", after: "2", answer: "2 true true"},
	"read_key": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		_, err := f.keyedWriter().AppendBatch(f.ctx, keyedMessages("a", "b", "a"))
		require.NoError(f.t, err)
		return func() (string, error) {
			versions, err := f.byKey("a", 0)
			return fmt.Sprint(versions), err
		}, f.length
	}, before: "3", after: "3", answer: "[1:0 2:2]"},
	"page": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		ids := f.append(f.writer(stream.WriterConfig{}), 3)
		return func() (string, error) {
			n := 0 // from an address that has no entry: so a plain XRANGE proves nothing
			for _, err := range f.reader().Range(f.ctx, ids[0].ServerEntry().Prev(), codec.MaxEntryID) {
				if err != nil {
					return "", err
				}
				n++
			}
			return strconv.Itoa(n), nil
		}, f.length
	}, before: "3", after: "3", answer: "3"},
	"describe": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		f.append(f.writer(stream.WriterConfig{}), 3)
		return func() (string, error) {
			infos, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
			if err != nil {
				return "", err
			}
			return strconv.FormatInt(infos[0].Length, 10), nil
		}, f.length
	}, before: "3", after: "3", answer: "3"},
	"unread": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		f.append(f.writer(stream.WriterConfig{}), 3)
		require.NoError(f.t, f.group("g", stream.Head(), lease).Create(f.ctx))
		return func() (string, error) {
			groups, err := stream.Groups(f.ctx, f.client, f.address)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(groups[0].OldestUnread.IsZero()), nil
		}, f.length
	}, before: "3", after: "3", answer: "false"},
	"create_group": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		f.append(f.writer(stream.WriterConfig{}), 3)
		g := f.group("g", stream.Head(), lease)
		return func() (string, error) { return "", g.Create(f.ctx) }, func() string {
			groups, err := stream.Groups(f.ctx, f.client, f.address)
			require.NoError(f.t, err)
			if len(groups) == 0 {
				return "none"
			}
			return fmt.Sprintf("%s lag %d lease %s", groups[0].Name, groups[0].Lag, groups[0].Lease)
		}
	}, before: "none", after: "g lag 3 lease 1m0s"},
	"sync": grouped{
		oom: true, prepare: func(s *scene) { s.f.do("HDEL", s.owners(), s.me.Name(), s.me.Name()+":beat") },
		call: func(s *scene) (string, error) {
			held, err := s.me.Sync(s.f.ctx)
			return fmt.Sprint(len(held)), err
		},
		before: "0:me:1 1:me:1 lag 1 dead 0 members 1", after: "0:me:1 1:me:1 lag 1 dead 0 members 2", answer: "2",
	}.row(),
	"settle": grouped{oom: true, call: func(s *scene) (string, error) {
		n, err := s.me.Settle(s.f.ctx, entriesOf(s.mine[:1]))
		return fmt.Sprint(n), err
	}, after: "1:me:1 lag 1 dead 0 members 2", answer: "1", again: "0"}.row(),
	"renew": grouped{oom: true, prepare: (*scene).age, call: func(s *scene) (string, error) {
		gone, err := s.me.Renew(s.f.ctx, entriesOf(s.mine))
		return fmt.Sprint(len(gone)), err
	}, before: "0:me:1:idle 1:me:1:idle lag 1 dead 0 members 2", after: sceneStart, answer: "0"}.row(),
	"release": grouped{oom: true, call: func(s *scene) (string, error) {
		return "", s.me.Release(s.f.ctx, returned([]tier.Held{{Entry: s.mine[0].Entry}}), 0)
	}, after: "0:me:0:idle 1:me:1 lag 1 dead 0 members 2"}.row(),
	"takeover": grouped{oom: true, prepare: (*scene).age, call: func(s *scene) (string, error) {
		taken, err := s.other.TakeOver(s.f.ctx, 10, allSuspects)
		return fmt.Sprint(len(taken.Leased)), err
	}, before: "0:me:1:idle 1:me:1:idle lag 1 dead 0 members 2", after: "0:other:2 1:other:2 lag 1 dead 0 members 2", answer: "2", again: "0"}.row(),
	"acquire": owned{oom: true, prepare: func(s *owning) {
		require.NoError(s.f.t, s.me.Release(s.f.ctx, handedBack(s.ids[:3]...), 0))
		require.NoError(s.f.t, s.me.Leave(s.f.ctx))
	}, call: func(s *owning) (string, error) {
		held, err := s.me.Sync(s.f.ctx)
		return fmt.Sprint(len(held), s.me.Owns()), err
	}, before: "none at - above - parked 0 dead 0", after: "me at - above - parked 0 dead 0", answer: "0 true"}.row(),
	"keep": owned{oom: true, call: func(s *owning) (string, error) {
		_, err := s.me.Renew(s.f.ctx, nil)
		return fmt.Sprint(s.f.row("c", "reach") == s.ids[2].String()), err
	}, after: owningStart, answer: "true"}.row(),
	"hand_over": owned{oom: true, prepare: func(s *owning) {
		require.NoError(s.f.t, s.me.Release(s.f.ctx, handedBack(s.ids[:3]...), 0))
	}, call: func(s *owning) (string, error) { return "", s.me.Leave(s.f.ctx) }, after: "none at - above - parked 0 dead 0"}.row(),
	"advance": owned{oom: true, call: func(s *owning) (string, error) {
		n, err := s.me.Settle(s.f.ctx, []codec.EntryID{s.ids[0], s.ids[2]})
		return fmt.Sprint(n), err
	}, after: "me at 0 above 2 parked 0 dead 0", answer: "2"}.row(),
	"due_owned": owned{oom: true, prepare: func(s *owning) {
		require.NoError(s.f.t, s.me.Commit(s.f.ctx, []tier.Ending{{Entry: s.ids[0], Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
	}, call: func(s *owning) (string, error) {
		taken, err := s.me.Due(s.f.ctx, 10)
		return fmt.Sprint(len(taken.Leased)), err
	}, before: "me at 0 above - parked 1 dead 0", after: "me at 0 above - parked 1 taken 1 dead 0", answer: "1"}.row(),
	"move_cursor": owned{
		oom: true, call: func(s *owning) (string, error) { return "", s.c.Reset(s.f.ctx, stream.FromEntry(s.ids[2])) },
		after: "none at 1 above - parked 0 dead 0",
	}.row(),
	"pause_cursor": owned{
		oom: true, call: func(s *owning) (string, error) { return "", s.c.Pause(s.f.ctx) }, after: owningStart + " paused",
	}.row(),
	"resume_cursor": owned{
		oom: true, prepare: func(s *owning) { require.NoError(s.f.t, s.c.Pause(s.f.ctx)) }, before: owningStart + " paused",
		call: func(s *owning) (string, error) { return "", s.c.Resume(s.f.ctx) }, after: owningStart,
	}.row(),
	"delete_cursor": owned{oom: true, call: func(s *owning) (string, error) {
		if err := s.c.Delete(s.f.ctx); !errors.Is(err, stream.ErrNoCursor) { // of a repetition
			return "", err
		}
		return "", nil
	}, after: "no cursor"}.row(),
	"commit": grouped{call: func(s *scene) (string, error) {
		list := lettersOf(heldOf(s.mine[:1]), "poison")
		out := tier.Address{Scope: s.f.addr().Scope, Stream: "out"}
		list[0].Outputs = []tier.Output{
			tier.HashSet("state", "f", "v"), tier.HashIncrement("state", "n", 1), tier.SetAdd("set", "m"), tier.SortedAdd("sorted", "m", 1),
			tier.Remove("set", "none"), tier.Delete("none"), tier.AppendTo(out.String(), codec.Message{}),
		}
		err := s.me.Commit(s.f.ctx, append(list, tier.Ending{Entry: s.mine[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}))
		if err != nil {
			return "", err
		}
		if n := s.f.text("HGET", tier.StateKey(out.Scope, "state"), "n") + s.f.text("XLEN", out.LogKey()); n != "11" {
			err = fmt.Errorf("outputs were written %s times", n)
		}
		return "", err
	}, after: "lag 1 dead 1 members 2 parked 1"}.row(),
	"commit of a cursor": owned{call: func(s *owning) (string, error) {
		out := tier.Address{Scope: s.f.addr().Scope, Stream: "out"}
		err := s.me.Commit(s.f.ctx, []tier.Ending{
			{Entry: s.ids[0], Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}},
			{Entry: s.ids[2], Deliveries: 1, Dead: []tier.Letter{{Index: -1, Reason: "no", Attempts: 1}}, Outputs: []tier.Output{
				tier.HashIncrement("state", "n", 1), tier.AppendTo(out.String(), codec.Message{}),
			}},
		})
		if err != nil {
			return "", err
		}
		if n := s.f.text("HGET", tier.StateKey(out.Scope, "state"), "n") + s.f.text("XLEN", out.LogKey()); n != "11" {
			err = fmt.Errorf("outputs were written %s times", n)
		}
		return "", err
	}, after: "me at 0 above 2 parked 1 dead 1"}.row(),
	"due": grouped{oom: true, prepare: func(s *scene) {
		require.NoError(s.f.t, s.me.Commit(s.f.ctx, []tier.Ending{{Entry: s.mine[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
	}, call: func(s *scene) (string, error) {
		taken, err := s.other.Due(s.f.ctx, 10)
		return fmt.Sprint(len(taken.Leased)), err
	}, before: "0:me:1 lag 1 dead 0 members 2 parked 1", after: "0:me:1 1:other:2 lag 1 dead 0 members 2", answer: "1", again: "0"}.row(),
	"redrive": {prepare: func(f *fixture) (func() (string, error), func() string) {
		s := newScene(f)
		require.NoError(f.t, s.me.Commit(f.ctx, lettersOf(heldOf(s.mine[:1]), "poison")))
		ids := letterIDs(f.dead())
		return func() (string, error) {
			r, err := stream.Redrive(f.ctx, f.client, f.address, "g", ids)
			return fmt.Sprint(r.Redriven, r.Gone), err
		}, s.state
	}, before: "1:me:1 lag 1 dead 1 members 2", after: "1:me:1 lag 1 dead 0 members 2 parked 1", answer: "1 0", again: "0 1"},
	"retire": grouped{
		oom: true, prepare: func(s *scene) { s.f.do("HSET", s.owners(), s.other.Name()+":beat", "1000") },
		call: func(s *scene) (string, error) { return "", s.me.Retire(s.f.ctx) }, after: "0:me:1 1:me:1 lag 1 dead 0 members 1",
	}.row(),
	"leave": grouped{
		oom: true, call: func(s *scene) (string, error) { return "", s.other.Leave(s.f.ctx) },
		after: "0:me:1 1:me:1 lag 1 dead 0 members 1",
	}.row(),
	"checkpoint": grouped{
		oom: true, call: func(s *scene) (string, error) {
			err := s.me.Checkpoint(s.f.ctx)
			return fmt.Sprint(s.f.text("HGET", s.f.addr().GroupKey("g"), "floor") == s.ids[0].Prev().String(), s.f.text("HGET", s.f.addr().GroupKey("g"), "added")), err
		}, after: sceneStart, answer: "true3",
	}.row(),
	"reset_group": grouped{oom: true, call: func(s *scene) (string, error) {
		n, err := s.g.Reset(s.f.ctx, stream.Head())
		return fmt.Sprint(n), err
	}, after: "lag 3 dead 0 members 0", answer: "2", again: "0"}.row(),
	"pause_group": grouped{
		oom: true, call: func(s *scene) (string, error) { return "", s.g.Pause(s.f.ctx) }, after: sceneStart + " paused",
	}.row(),
	"resume_group": grouped{
		oom: true, prepare: func(s *scene) { require.NoError(s.f.t, s.g.Pause(s.f.ctx)) },
		call:   func(s *scene) (string, error) { return "", s.g.Resume(s.f.ctx) },
		before: sceneStart + " paused", after: sceneStart,
	}.row(),
	"oldest": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		s := newScene(f)
		require.NoError(f.t, s.me.Commit(f.ctx, lettersOf(heldOf(s.mine), "poison")))
		first := f.dead()[0].ID
		return func() (string, error) {
			groups, err := stream.Groups(f.ctx, f.client, f.address)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(groups[0].OldestDead == first), nil
		}, s.state
	}, before: "lag 1 dead 2 members 2", after: "lag 1 dead 2 members 2", answer: "true"},
	"whereabouts": auditing("whereabouts", "lag 1 dead 1 members 2 parked 1"),
	"damaged":     auditing("damaged", "lag 1 dead 1 members 2 parked 1"),
	"scan": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		_, err := f.writer(stream.WriterConfig{Producer: "p"}).AppendAt(f.ctx, 1, messages(1))
		require.NoError(f.t, err)
		return func() (string, error) {
			keys, err := f.client.KeysBelow(f.ctx, f.log())
			return fmt.Sprint(slices.Equal(keys, []string{f.addr().ProducerKey("p")})), err
		}, f.length
	}, before: "1", after: "1", answer: "true"},
	"rights": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		return func() (string, error) {
			m, err := f.client.Run(f.ctx, tier.Call{
				Script: script(f.t, "rights"), Keys: []string{f.log()}, Args: []string{"2", "XLEN", f.log(), "2", "NONESUCH", f.log(), "3", "XADD", f.log(), "*"},
			})
			if err != nil {
				return "", err
			}
			answers, err := m.AsStrSlice()
			return strings.Join(answers, ""), err
		}, func() string { return "" }
	}, answer: "101"},
	"remove": grouped{oom: true, call: func(s *scene) (string, error) {
		gone, err := stream.Remove(s.f.ctx, s.f.client, s.f.address)
		return fmt.Sprint(gone.Entries), err
	}, after: "no group", answer: "3", again: "0"}.row(),
	"purge": grouped{oom: true, call: func(s *scene) (string, error) {
		gone, err := stream.Purge(s.f.ctx, s.f.client, s.f.address)
		return fmt.Sprint(gone.Entries), err
	}, after: "lag 0 dead 0 members 0", answer: "3", again: "0"}.row(),
	"begin_effect": {prepare: func(f *fixture) (func() (string, error), func() string) {
		r := f.records(stream.RecordsConfig{})
		return func() (string, error) {
			e, err := r.Begin(f.ctx, "k", 1)
			return fmt.Sprint(e.State == stream.EffectBegun, e.Earlier), err
		}, func() string { return f.record("k") }
	}, before: "none", after: "begun 1", answer: "true 0"},
	"end_effect": {oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		r := f.records(stream.RecordsConfig{})
		e, err := r.Begin(f.ctx, "k", 1)
		require.NoError(f.t, err)
		return func() (string, error) { return "", r.Done(f.ctx, e) }, func() string { return f.record("k") }
	}, before: "begun 1", after: "done 1"},
	"keep_snapshot": {prepare: func(f *fixture) (func() (string, error), func() string) {
		id := f.append(f.writer(stream.WriterConfig{}), 1)[0].ServerEntry()
		s := f.snapshots()
		return func() (string, error) {
				kept, err := s.Keep(f.ctx, stream.Snapshot{At: id, Entry: id, State: []byte("state")})
				return fmt.Sprint(kept), err
			}, func() string {
				return f.text("HGET", f.addr().FoldKey("balances.1"), "state") + f.text("HGET", f.addr().FoldKey("balances.1"), "added")
			}
	}, before: "", after: "state1", answer: "true"},
	"hydrate": {prepare: func(f *fixture) (func() (string, error), func() string) {
		scope := f.addr().Scope
		return func() (string, error) {
				n, err := stream.Hydrate(f.ctx, f.client, scope, "latest", []stream.Latest{{Key: "k", At: codec.EntryID{Ms: 7}, Value: []byte("value")}})
				return fmt.Sprint(n), err
			}, func() string {
				return f.text("HGET", tier.StateKey(scope, "latest"), "k") + f.text("HGET", tier.StateKey(scope, "latest.at"), "k")
			}
	}, before: "", after: "value7-0", answer: "1", again: "0"},
	"stage": {prepare: func(f *fixture) (func() (string, error), func() string) {
		r, entries := f.lost()
		return func() (string, error) { return "", r.Stage(f.ctx, entries) }, f.restoring
	}, before: "0 in the log, 0 beside it", after: "0 in the log, 3 beside it"},
	"restore": {prepare: func(f *fixture) (func() (string, error), func() string) {
		r, entries := f.lost()
		require.NoError(f.t, r.Stage(f.ctx, entries))
		return func() (string, error) { return "", r.Place(f.ctx) }, f.restoring
	}, before: "0 in the log, 3 beside it", after: "3 in the log, 0 beside it"},
	"delete_group": grouped{oom: true, call: func(s *scene) (string, error) { return "", s.g.Delete(s.f.ctx) }, after: "no group"}.row(),
}

// sweeping is a row about trimming: of four entries, a group has settled one.
type sweeping struct {
	taken                        bool
	prepare                      func(*sweeps)
	call                         func(*sweeps) (string, error)
	before, after, answer, again string
}

type sweeps struct {
	f      *fixture
	member *stream.Member
	right  *stream.Sweep
	policy stream.Retention
	ids    []codec.EntryID
}

func (w sweeping) row() transition {
	return transition{
		oom: true, before: w.before, after: w.after, answer: w.answer, again: w.again,
		prepare: func(f *fixture) (func() (string, error), func() string) {
			s := &sweeps{f: f, policy: stream.Retention{MaxLength: 1, HardCap: 2, Exact: true, Retire: time.Second}, ids: f.logged(4)}
			s.member, _ = f.reads("g", 1, 0)
			s.right = f.sweeps(s.policy)
			key := tier.SweeperKey(f.addr().Scope)
			_, err := s.right.Trim(f.ctx, "orders", s.policy, stream.Trim{Keep: -1}) // it knows the group then
			require.NoError(f.t, err)
			if !w.taken {
				require.NoError(f.t, s.right.Release(f.ctx))
			}
			if w.prepare != nil {
				w.prepare(s)
			}
			return func() (string, error) { return w.call(s) }, func() string {
				who := "free"
				if f.text("HGET", key, "owner") != "" {
					who = "held"
				}
				groups, err := stream.Groups(f.ctx, f.client, f.address)
				require.NoError(f.t, err)
				archived := ""
				for i, id := range s.ids {
					if f.text("HGET", f.addr().RetentionKey(), "to") == id.String() {
						archived += fmt.Sprint(", to ", i)
					}
					if f.text("GET", f.addr().ArchivedKey()) == id.String() {
						archived += fmt.Sprint(", marked ", i)
					}
				}
				return fmt.Sprintf("%s, %s entries, dropped %s, groups %d%s", who, f.length(), f.text("HGET", f.addr().RetentionKey(), tier.DroppedField("g")), len(groups), archived)
			}
		},
	}
}

// onScope runs a script on the hash of a scope.
func (f *fixture) onScope(name, scope string, args ...string) (string, error) {
	m, err := f.client.Run(f.ctx, tier.Call{Script: script(f.t, name), Keys: []string{tier.ScopeKey(scope)}, Args: args})
	if err != nil {
		return "", err
	}
	reply, err := m.AsStrSlice()
	return strings.Join(reply, " "), err
}

// appending is the row of append and pack: two messages, once.
func appending(size int) transition {
	return transition{prepare: func(f *fixture) (func() (string, error), func() string) {
		w := f.writer(stream.WriterConfig{Pack: size, Brand: "ORD"})
		_, err := w.Declare(f.ctx)
		require.NoError(f.t, err)
		return func() (string, error) {
			ids, err := w.AppendBatch(f.ctx, messages(2))
			if err != nil {
				return "", err
			}
			all := f.all()
			return fmt.Sprint(len(ids), ids[0] == all[0].ID, ids[1] == all[1].ID), nil
		}, func() string { return strconv.Itoa(len(f.all())) }
	}, before: "0", after: "2", answer: "2 true true"}
}

// auditing is the row of a script of the audit, of a group with something parked and something dead.
func auditing(name, state string) transition {
	return transition{oom: true, prepare: func(f *fixture) (func() (string, error), func() string) {
		s := newScene(f)
		list := append(lettersOf(heldOf(s.mine[:1]), "poison"), tier.Ending{Entry: s.mine[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}})
		require.NoError(f.t, s.me.Commit(f.ctx, list))
		return func() (string, error) { return name, stream.Check(f.ctx, f.client, f.addr().Scope) }, s.state
	}, before: state, after: state, answer: name}
}

// grouped is a row about a group: of three entries, the member "me" was given two.
type grouped struct {
	oom                          bool
	prepare                      func(*scene)
	call                         func(*scene) (string, error)
	before, after, answer, again string
}

const sceneStart = "0:me:1 1:me:1 lag 1 dead 0 members 2"

type scene struct {
	f         *fixture
	g         *stream.Group
	me, other *stream.Member
	mine      []tier.Leased
	ids       []codec.EntryID
}

func (g grouped) row() transition {
	if g.before == "" {
		g.before = sceneStart
	}
	return transition{
		oom: g.oom, before: g.before, after: g.after, answer: g.answer, again: g.again,
		prepare: func(f *fixture) (func() (string, error), func() string) {
			s := newScene(f)
			if g.prepare != nil {
				g.prepare(s)
			}
			return func() (string, error) { return g.call(s) }, s.state
		},
	}
}

func newScene(f *fixture) *scene {
	s := &scene{f: f, g: f.group("g", stream.Head(), lease)}
	for _, id := range f.append(f.writer(stream.WriterConfig{}), 3) {
		s.ids = append(s.ids, id.ServerEntry())
	}
	s.me, s.other = f.join(s.g), f.join(s.g)
	s.mine = f.read(s.me, 2)
	return s
}

func (s *scene) owners() string { return s.f.addr().OwnersKey("g") }

// age lets the leases of all that is pending end.
func (s *scene) age() {
	for _, p := range s.f.pending("g") {
		s.f.do("XCLAIM", s.f.log(), "g", p.consumer, "0", p.entry.String(), "IDLE", strconv.FormatInt(lease.Milliseconds(), 10), "RETRYCOUNT", strconv.Itoa(p.deliveries), "JUSTID")
	}
}

func (s *scene) state() string {
	groups, err := stream.Groups(s.f.ctx, s.f.client, s.f.address)
	require.NoError(s.f.t, err)
	if len(groups) == 0 {
		return "no group"
	}
	var words []string
	names := map[string]string{s.me.Name(): "me", s.other.Name(): "other"}
	for _, p := range s.f.pending("g") {
		word := fmt.Sprintf("%d:%s:%d", slices.Index(s.ids, p.entry), names[p.consumer], p.deliveries)
		if p.idle >= lease {
			word += ":idle"
		}
		words = append(words, word)
	}
	members, err := strconv.Atoi(s.f.text("HLEN", s.owners()))
	require.NoError(s.f.t, err)
	words = append(words, fmt.Sprintf("lag %d dead %d members %d", groups[0].Lag, groups[0].Dead, members/2))
	if n := s.f.text("ZCARD", s.f.addr().RetryKey("g")); n != "0" {
		words = append(words, "parked "+n)
	}
	if groups[0].Paused {
		words = append(words, "paused")
	}
	return strings.Join(words, " ")
}

// owned is a row about a cursor: of four entries, its owner "me" was given three.
type owned struct {
	oom                          bool
	prepare                      func(*owning)
	call                         func(*owning) (string, error)
	before, after, answer, again string
}

const owningStart = "me at - above - parked 0 dead 0"

type owning struct {
	f   *fixture
	c   *stream.Cursor
	me  *stream.Owner
	ids []codec.EntryID
}

func (o owned) row() transition {
	if o.before == "" {
		o.before = owningStart
	}
	return transition{
		oom: o.oom, before: o.before, after: o.after, answer: o.answer, again: o.again,
		prepare: func(f *fixture) (func() (string, error), func() string) {
			s := &owning{f: f, c: f.cursor("c", stream.Head(), lease)}
			for _, id := range f.append(f.writer(stream.WriterConfig{}), 4) {
				s.ids = append(s.ids, id.ServerEntry())
			}
			s.me = f.own(s.c)
			f.owned(s.me, 3)
			if o.prepare != nil {
				o.prepare(s)
			}
			return func() (string, error) { return o.call(s) }, s.state
		},
	}
}

func (s *owning) state() string {
	if s.f.row("c", "epoch") == "" {
		return "no cursor"
	}
	place := func(id string) string {
		if i := slices.IndexFunc(s.ids, func(e codec.EntryID) bool { return e.String() == id }); i >= 0 {
			return strconv.Itoa(i)
		}
		return "-"
	}
	owner := map[string]string{s.me.Name(): "me", "": "none"}[s.f.row("c", "owner")]
	taken := ""
	if n := s.f.text("ZCOUNT", s.f.addr().RetryKey("c"), "4503599627370496", "+inf"); n != "0" {
		taken = " taken " + n
	}
	paused := ""
	if s.f.row("c", "paused") != "" {
		paused = " paused"
	}
	return fmt.Sprintf("%s at %s above %s parked %s%s dead %s%s", owner, place(s.f.row("c", "at")), place(s.f.row("c", "above")),
		s.f.text("ZCARD", s.f.addr().RetryKey("c")), taken, s.f.text("XLEN", s.f.addr().DeadKey("c")), paused)
}

// inTransactions is a script of which the transaction has done what comes before it: two entries.
type inTransactions struct {
	script string
	args   []string
	state  string // behind the receipts of the producer; ms is the one after the entries'
}

func inTransaction(script string, args ...string) inTransactions {
	return inTransactions{script: script, args: args}
}

func (in inTransactions) behind(state string) inTransactions {
	in.state = state
	return in
}

func (in inTransactions) answers(answer, after, again string) transition {
	return transition{before: "two more", answer: answer, after: after, again: again, prepare: func(f *fixture) (func() (string, error), func() string) {
		f.append(f.writer(stream.WriterConfig{}), 1)
		log, producer, scope := f.log(), f.addr().ProducerKey("p"), tier.ScopeKey(f.addr().Scope)
		var first, ms string
		add := func() error {
			m, err := f.client.Do(f.ctx, log, f.client.B().Xadd().Key(log).Id("*").FieldValue().FieldValue("m", "a").Build())
			if err != nil {
				return err
			}
			first, _ = m.ToString()
			ms, _, _ = strings.Cut(first, "-")
			_, err = f.client.Do(f.ctx, log, f.client.B().Xadd().Key(log).Id(ms+"-*").FieldValue().FieldValue("m", "b").Build())
			return err
		}
		keys, args := []string{log, producer, scope}, slices.Clone(in.args)
		if in.script == "receipt" {
			args = append(args, f.text("HGET", scope, "node"), f.text("HGET", scope, tier.StreamField(f.addr().Stream)))
		} else {
			require.NoError(f.t, add())
		}
		if in.script == "follow" {
			keys = keys[:2]
		}
		n, _ := strconv.Atoi(ms)
		state := strings.ReplaceAll(in.state, "ms", strconv.Itoa(n+1))
		f.do("SET", producer, "1 1-1 1 1;"+state)
		return func() (string, error) {
				if in.script == "receipt" { // a transaction that comes late, too, has its entries
					if err := add(); err != nil {
						return "", err
					}
				}
				m, err := f.client.Run(f.ctx, tier.Call{Script: script(f.t, in.script), Keys: keys, Args: args})
				if err != nil {
					return "", err
				}
				if in.script != "receipt" {
					n, err := m.AsInt64()
					return strconv.FormatInt(n, 10), err
				}
				reply, err := m.ToAny()
				return strings.Replace(fmt.Sprint(reply), first, "first", 1), err
			}, func() string {
				held := f.text("GET", producer)
				number, rest, _ := strings.Cut(held, " ")
				switch {
				case number == "2" && strings.HasSuffix(rest, " 2 1;"):
					return "noted"
				case held == "1 1-1 1 1;"+state:
					return "two more"
				case strings.HasSuffix(held, " 4"):
					return "room"
				case held == "1 1-1 1 1;"+strings.TrimSuffix(state, "4")+"9":
					return "followed"
				}
				return held
			}
	}}
}

// TestTransitions (B144) calls each script through Go, on every server, a cluster too: what it answers and what it leaves
// behind. A script without a row fails.
func TestTransitions(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		eachTransition(t, func(t *testing.T, src source, row transition) {
			f := setUp(t, s)
			do, state := row.prepare(f)
			require.Equal(t, row.before, state())
			answer, err := do()
			require.NoError(t, err)
			require.Equal(t, row.answer, answer)
			require.Equal(t, row.after, state())
		})
	})
}

func eachTransition(t *testing.T, f func(t *testing.T, src source, row transition)) {
	t.Helper()
	all := sources(t)
	for name := range all {
		require.Contains(t, transitions, name, "the script has no row in transitions")
	}
	for name, row := range transitions {
		script, _, _ := strings.Cut(name, " of ")
		src, ok := all[script]
		require.True(t, ok, "%s: a row without a script", name)
		t.Run(name, func(t *testing.T) { f(t, src, row) })
	}
}

// TestTransitionsThroughFaults (B74): a script whose reply is lost, or whose request is, and that the caller repeats
// until it is answered, has had its effect once.
func TestTransitionsThroughFaults(t *testing.T) {
	faults := []struct {
		name   string
		inject func(*tiertest.Proxy, int, func([]string) bool)
		times  int
	}{
		{"reply lost", (*tiertest.Proxy).DropReplies, 1},
		{"two replies lost", (*tiertest.Proxy).DropReplies, 2},
		{"request lost", (*tiertest.Proxy).DropRequests, 1},
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			for _, fault := range faults {
				if kind != tiertest.Valkey && fault.name != "reply lost" {
					continue // the others are the same to all servers
				}
				t.Run(fault.name, func(t *testing.T) {
					eachTransition(t, func(t *testing.T, src source, row transition) {
						f, proxy := setUpProxied(t, s)
						do, state := row.prepare(f)
						require.Equal(t, row.before, state())
						f.load(src)
						fault.inject(proxy, fault.times, runs(src))
						answer, err := do()
						calls := 1
						for ; err != nil && calls < 4; calls++ {
							require.True(t, tier.OutcomeUnknown(err), "%v", err)
							answer, err = do()
						}
						require.NoError(t, err)
						require.Equal(t, fault.times, proxy.Dropped())
						want := row.answer
						if row.again != "" && calls > 1 && strings.Contains(fault.name, "repl") {
							want = row.again
						}
						require.Equal(t, want, answer)
						require.Equal(t, row.after, state())
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
			s := tiertest.Private(t, kind)
			to := s.Neighbour(t)
			eachTransition(t, func(t *testing.T, src source, row transition) {
				if !src.Empties() {
					return // all its keys are there until it ends
				}
				f, proxy := setUpProxied(t, s)
				do, state := row.prepare(f)
				f.load(src)
				moving := proxy.MoveDuring(t, src, to)
				_, err := do()
				moving.Rest()
				require.True(t, moving.Begun)
				if err != nil {
					require.Equal(t, tier.BackOff, tier.Classify(err).Reaction, "%v", err)
					require.False(t, tier.OutcomeUnknown(err), "%v", err)
					if left := state(); left != row.after || left == row.before {
						require.Equal(t, row.before, left)
						var answer string
						answer, err = do()
						require.Equal(t, row.answer, answer)
					} else {
						err = nil // of a script behind this one
					}
				}
				require.NoError(t, err)
				require.Equal(t, row.after, state())
			})
		})
	}
}

// TestTransitionsWhenFull: on a full server scripts that add nothing work, so that it can be drained; the others are
// refused with no effect.
func TestTransitionsWhenFull(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			eachTransition(t, func(t *testing.T, src source, row transition) {
				f := setUp(t, s)
				do, state := row.prepare(f)
				f.fill(true)
				answer, err := do()
				f.fill(false)
				require.Equal(t, row.oom, tier.NewScript(src.Name, src.Text).AllowsOOM())
				if row.oom {
					require.NoError(t, err)
					require.Equal(t, row.answer, answer)
					require.Equal(t, row.after, state())
					return
				}
				require.ErrorIs(t, err, tier.ErrStoreFull)
				require.False(t, tier.OutcomeUnknown(err))
				require.Equal(t, row.before, state())
			})
		})
	}
}

// TestTransitionsPassWhatHeadersSay: Go passes as many keys and arguments as the header documents, and what is at a key
// has the documented type.
func TestTransitionsPassWhatHeadersSay(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	eachTransition(t, func(t *testing.T, src source, row transition) {
		f, proxy := setUpProxied(t, s)
		do, _ := row.prepare(f)
		f.load(src)
		var sent []string
		proxy.DropReplies(1000, func(cmd []string) bool {
			if runs(src)(cmd) {
				sent = cmd
			}
			return false
		})
		_, err := do()
		require.NoError(t, err)
		require.NotEmpty(t, sent)
		n, err := strconv.Atoi(sent[2])
		require.NoError(t, err)
		keys, args := sent[3:3+n], sent[3+n:]

		params := src.Params("KEYS")
		if params[len(params)-1].Rest {
			params = params[:len(params)-1]
			require.GreaterOrEqual(t, len(keys), len(params))
		} else {
			require.Len(t, keys, len(params))
		}
		for i, p := range params {
			typ := strings.ToUpper(f.text("TYPE", keys[i]))
			if typ != "NONE" && !p.Unlooked() {
				require.True(t, strings.HasPrefix(p.Text, typ), "KEYS[%d] %s holds a %s: %s", p.Index, keys[i], typ, p.Text)
			}
		}
		params = src.Params("ARGV")
		if len(params) > 0 && params[len(params)-1].Rest {
			require.GreaterOrEqual(t, len(args), len(params)-1)
			return
		}
		require.Len(t, args, len(params))
	})
}

func runs(src source) func(cmd []string) bool { return src.Runs() }

var kinds = []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster, tiertest.Redis, tiertest.RedisCluster}

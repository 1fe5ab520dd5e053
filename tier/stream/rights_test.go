package stream_test

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
	"github.com/echomq/pipeline/tier/stream"
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
	return strings.Fields(strings.NewReplacer("{shop}", "{"+scope+"}", "{shop.", "{"+scope+".").Replace(block))
}

// work is what a role does, all of it. Of the fixture, which may everything, it has only the address.
type work func(f *fixture, client *tier.Client) error

var roles = map[string]work{
	"writer":    writerWork,
	"exclusive": exclusiveWork,
	"keyed":     keyedWork,
	"reader":    readerWork,
	"consumer":  consumerWork,
	"owner":     ownerWork,
	"operator":  operatorWork,
	"records":   recordsWork,
	"sweeper":   sweeperWork,
	"fold":      foldWork,
	"seen":      seenWork,
	"restorer":  restoreWork,
}

func seenWork(f *fixture, client *tier.Client) error {
	seen, err := stream.NewSeen(client, stream.SeenConfig{Scope: f.addr().Scope, Name: "mails", Window: time.Minute})
	if err != nil {
		return err
	}
	_, err = seen.First(f.ctx, "k", "who")
	return err
}

func writerWork(f *fixture, client *tier.Client) error {
	for _, cfg := range []stream.WriterConfig{{Pack: 4096}, {}, {Producer: "importer"}} {
		cfg.Address = f.address
		w, err := stream.NewWriter(client, cfg)
		if err != nil {
			return err
		}
		if cfg.Producer != "" {
			_, err = w.AppendAt(f.ctx, 1, messages(1))
		} else {
			_, err = w.AppendBatch(f.ctx, messages(4096)) // to the last sequence of a millisecond
		}
		if err != nil {
			return err
		}
		if cfg.Pack == 0 && cfg.Producer == "" {
			if _, _, err = w.AppendOnce(f.ctx, "once", time.Minute, codec.Message{}); err != nil {
				return err
			}
		}
		if cfg.Pack > 0 {
			f.do("XTRIM", f.log(), "MAXLEN", "0") // only the log knows its top now
			if _, err = w.AppendBatch(f.ctx, messages(1)); err != nil {
				return err
			}
		}
	}
	return nil
}

func keyedWork(f *fixture, client *tier.Client) error {
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: f.address, Keyed: true})
	if err != nil {
		return err
	}
	first := keyedMessages(slices.Repeat([]string{"a"}, 4096)...) // to the last sequence of a millisecond
	if _, err = w.AppendIf(f.ctx, first, stream.ExpectVersion("a", 0), stream.Expect(codec.EntryID{})); err != nil {
		return err
	}
	if _, err = w.Append(f.ctx, codec.Message{Key: "b"}); err != nil {
		return err
	}
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: f.address})
	if err != nil {
		return err
	}
	f.do("XTRIM", f.log(), "MAXLEN", "1")
	for _, err = range r.ReadKey(f.ctx, "a", 1) {
		if errors.Is(err, stream.ErrTrimmed) {
			err = nil
		}
	}
	return err
}

func exclusiveWork(f *fixture, client *tier.Client) error {
	lease, err := client.LeaseNode(f.ctx)
	if err != nil {
		return err
	}
	mint := lease.Mint()
	for range 2 {
		w, err := stream.NewWriter(client, stream.WriterConfig{Address: f.address, Exclusive: true, Mint: mint})
		if err != nil {
			return err
		}
		if _, err = w.AppendBatch(f.ctx, messages(3)); err != nil {
			return err
		}
	}
	f.do("XSETID", f.log(), "9999999999999-0") // another writer was there
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: f.address, Exclusive: true, Mint: mint})
	if err != nil {
		return err
	}
	if _, err = w.AppendBatch(f.ctx, messages(1)); errors.Is(err, stream.ErrNonMonotonic) {
		return nil
	}
	return err
}

func readerWork(f *fixture, client *tier.Client) error {
	id, err := f.writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{Key: "k"})
	require.NoError(f.t, err)
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: f.address})
	if err != nil {
		return err
	}
	if _, err := r.Get(f.ctx, id); err != nil {
		return err
	}
	if _, err := r.Last(f.ctx, 3); err != nil {
		return err
	}
	for _, err := range r.Since(f.ctx, time.Time{}) {
		if err != nil {
			return err
		}
	}
	foreign := f.addr()
	foreign.Stream = "none"
	none, err := stream.NewReader(client, stream.ReaderConfig{Address: foreign.String()})
	if err != nil {
		return err
	}
	for _, r := range []*stream.Reader{r, none} {
		ctx, cancel := context.WithTimeout(f.ctx, 200*time.Millisecond)
		defer cancel()
		for _, err := range r.Tail(ctx, codec.EntryID{}) {
			if err != nil {
				return err
			}
		}
	}
	foreign.Stream = "foreign" // not declared
	f.do("XADD", foreign.LogKey(), "*", "a", "b")
	r, err = stream.NewReader(client, stream.ReaderConfig{Address: foreign.String()})
	if err != nil {
		return err
	}
	_, err = r.Last(f.ctx, 1)
	return err
}

func consumerWork(f *fixture, client *tier.Client) error {
	f.append(f.writer(stream.WriterConfig{}), 10)
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: f.address, Name: "mailer", Start: stream.Head(), Lease: time.Second})
	if err != nil {
		return err
	}
	m, err := g.Join(f.ctx, "m")
	if err != nil {
		return err
	}
	other, err := g.Join(f.ctx, "other")
	if err != nil {
		return err
	}
	leased, err := m.Read(f.ctx, 4, 0)
	if err != nil {
		return err
	}
	ids := entriesOf(leased)
	late, err := other.Read(f.ctx, 1, 0)
	if err != nil {
		return err
	}
	if err := other.Release(f.ctx, returned(heldOf(late)), 0); err != nil {
		return err
	}
	steps := []func() error{
		func() error { _, err := m.Sync(f.ctx); return err },
		func() error { _, err := m.Renew(f.ctx, ids); return err },
		func() error { _, err := m.Settle(f.ctx, ids[:1]); return err },
		func() error {
			return m.Commit(f.ctx, []tier.Ending{{Entry: leased[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}, Dead: []tier.Letter{{Index: -1, Reason: "test"}}}})
		},
		func() error { _, err := m.Parked(f.ctx, nil); return err },
		func() error { _, err := m.Due(f.ctx, 1); return err },
		func() error { return m.Release(f.ctx, returned(heldOf(leased[2:3])), 0) },
		func() error { _, err := m.TakeOver(f.ctx, 10, allSuspects); return err },
		func() error { return m.Checkpoint(f.ctx) },
		func() error {
			f.do("HSET", f.addr().OwnersKey("mailer"), "dead", "1", "dead:beat", "1") // of long ago
			return m.Retire(f.ctx)
		},
		func() error { _, err := m.Rebuild(f.ctx); return err },
		func() error {
			if _, err := m.Sync(f.ctx); err != nil {
				return err
			}
			return m.Leave(f.ctx)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil && !errors.Is(err, tier.ErrFenced) {
			return err
		}
	}
	return nil
}

func foldWork(f *fixture, client *tier.Client) error {
	first := f.append(f.writer(stream.WriterConfig{}), 2)[0].ServerEntry()
	s, err := stream.NewSnapshots(client, f.address, "balances.1")
	if err != nil {
		return err
	}
	if _, err := s.Load(f.ctx); err != nil {
		return err
	}
	if _, err := s.Keep(f.ctx, stream.Snapshot{At: first, Entry: first}); err != nil {
		return err
	}
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: f.address})
	if err != nil {
		return err
	}
	_, err = r.UnreadAge(f.ctx, first)
	return err
}

func recordsWork(f *fixture, client *tier.Client) error {
	r, err := stream.NewRecords(client, stream.RecordsConfig{Address: f.address, Name: "mailer"})
	if err != nil {
		return err
	}
	for attempt, end := range []func(context.Context, stream.Effect) error{r.Withdraw, r.Leave, r.Done} {
		e, err := r.Begin(f.ctx, "k", attempt)
		if err != nil {
			return err
		}
		if err := end(f.ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// noPast has nothing.
type noPast struct{}

func (noPast) After(context.Context, tier.Address, codec.EntryID) ([]codec.Entry, error) {
	return nil, nil
}

func ownerWork(f *fixture, client *tier.Client) error {
	f.append(f.writer(stream.WriterConfig{}), 10)
	c, err := stream.NewCursor(client, stream.CursorConfig{Address: f.address, Name: "mailer", Start: stream.Head(), Past: noPast{}})
	if err != nil {
		return err
	}
	o, err := c.Join(f.ctx, "m")
	if err != nil {
		return err
	}
	leased, err := o.Read(f.ctx, 10, 0)
	if err != nil {
		return err
	}
	ids := entriesOf(leased)
	for _, step := range []func() error{
		func() error { _, err := o.Settle(f.ctx, ids[:2]); return err },
		func() error {
			return o.Commit(f.ctx, []tier.Ending{
				{Entry: ids[2], Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}, {Entry: ids[3], Deliveries: 1, Dead: []tier.Letter{{Index: -1, Reason: "test"}}},
			})
		},
		func() error { _, err := o.Parked(f.ctx, nil); return err },
		func() error { _, err := o.Due(f.ctx, 1); return err },
		func() error { _, err := o.Renew(f.ctx, nil); return err },
		func() error { return o.Release(f.ctx, handedBack(ids[4]), 0) },
		func() error { _, err := o.TakeOver(f.ctx, 1, 1); return err },
		func() error { _, err := o.Settle(f.ctx, ids); return err },
		func() error { return o.Leave(f.ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func operatorWork(f *fixture, client *tier.Client) error {
	f.append(f.writer(stream.WriterConfig{}), 10)
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: f.address, Name: "mailer", Start: stream.Head(), Lease: time.Second})
	if err != nil {
		return err
	}
	scope := f.addr().Scope
	steps := []func() error{
		func() error { return g.Create(f.ctx) },
		func() error { return g.Create(f.ctx) }, // it exists
		func() error { _, err := g.PlanReset(f.ctx, stream.Head()); return err },
		func() error { return g.Pause(f.ctx) },
		func() error { return g.Resume(f.ctx) },
		func() error { return redriveWork(f, client) },
		func() error { _, err := g.Reset(f.ctx, stream.Head()); return err },
		func() error { _, err := stream.GroupDetails(f.ctx, client, f.address); return err },
		func() error {
			for _, err := range stream.Streams(f.ctx, client, scope) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		func() error { _, err := client.Scopes(f.ctx); return err },
		func() error {
			f.do("ZADD", f.addr().RetryKey("mailer"), "1", "1-1") // something parked
			f.do("HSET", f.addr().OpenKey("mailer"), "1-1", "1 0 1 0")
			return stream.Check(f.ctx, client, scope)
		},
		func() error { return cursorWork(f, client) },
		func() error { _, err := stream.PlanRemove(f.ctx, client, f.address); return err },
		func() error { _, err := stream.Purge(f.ctx, client, f.address); return err },
		func() error { return g.Delete(f.ctx) },
		func() error { _, err := stream.Remove(f.ctx, client, f.address); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func sweeperWork(f *fixture, client *tier.Client) error {
	ids := f.logged(10)
	policy := stream.Retention{MaxLength: 1, HardCap: 1, Exact: true, Retire: time.Second, Archive: "file:///archive"}
	require.NoError(f.t, stream.SetRetention(f.ctx, f.client, f.address, policy))
	m, leased := f.reads("mailer", 5, 0, 1, 2)
	require.NoError(f.t, m.Commit(f.ctx, failed(leased[3].Entry)))
	s, err := stream.NewSweep(client, f.addr().Scope, 0)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { _, err := stream.Retentions(f.ctx, client, f.addr().Scope); return err },
		func() error { _, err := stream.HoldingsOf(f.ctx, client, f.address); return err },
		func() error { _, err := stream.CountBelow(f.ctx, client, f.address, 10, ids[3]); return err },
		func() error { _, _, err := s.Take(f.ctx); return err },
		func() error { _, err := s.Trim(f.ctx, "orders", policy, stream.Trim{Keep: 1, Exact: true}); return err },
		func() error {
			before := f.length()
			_, err := s.Drop(f.ctx, "orders", policy)
			require.True(f.t, err == nil || before == f.length(), "a refusal has trimmed")
			return err
		},
		func() error {
			require.NoError(f.t, f.group("unused", stream.Head(), time.Second).Create(f.ctx))
			for _, at := range []string{"", "1"} { // watched from now on, and long ago
				if at != "" {
					f.do("HSET", f.addr().RetentionKey(), "silent:unused", at)
				}
				if _, _, err := s.Retire(f.ctx, "orders", policy, "unused"); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			_, err := s.Choose(f.ctx, "orders", policy, codec.EntryID{}, ids[9], -time.Minute)
			return err
		},
		func() error {
			before := f.text("HGET", f.addr().RetentionKey(), "mark")
			last := codec.EntryID{Ms: ids[9].Ms + 60_000}
			seen, err := s.Choose(f.ctx, "orders", policy, codec.EntryID{}, codec.EntryID{}, 0)
			if err == nil {
				_, err = s.Mark(f.ctx, "orders", policy, last, seen.Top)
			}
			require.True(f.t, err == nil || before == f.text("HGET", f.addr().RetentionKey(), "mark"), "a refusal has marked")
			if err == nil {
				f.do("DEL", f.log())
				if seen, err = s.Choose(f.ctx, "orders", policy, codec.EntryID{}, codec.EntryID{}, 0); err == nil {
					_, err = s.Mark(f.ctx, "orders", policy, codec.EntryID{Ms: last.Ms + 1}, seen.Top)
				}
			}
			return err
		},
		func() error { return s.Release(f.ctx) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// cursorWork looks at a cursor, moves and deletes it.
func cursorWork(f *fixture, client *tier.Client) error {
	f.own(f.cursor("c", stream.Head(), 0))
	c, err := stream.NewCursor(client, stream.CursorConfig{Address: f.address, Name: "c", Start: stream.Head()})
	if err != nil {
		return err
	}
	if _, err := stream.Cursors(f.ctx, client, f.address); err != nil {
		return err
	}
	return errors.Join(c.Pause(f.ctx), c.Resume(f.ctx), c.Reset(f.ctx, stream.Head()), c.Delete(f.ctx))
}

// redriveWork redrives and drops dead letters that a consumer has left.
func redriveWork(f *fixture, client *tier.Client) error {
	m, err := f.group("mailer", stream.Head(), 0).Join(f.ctx, "m")
	require.NoError(f.t, err)
	require.NoError(f.t, m.Commit(f.ctx, lettersOf(heldOf(f.read(m, 2)), "r")))
	letters, err := collected(stream.DeadLetters(f.ctx, client, f.address, "mailer"))
	if err != nil {
		return err
	}
	if _, err := stream.Redrive(f.ctx, client, f.address, "mailer", letterIDs(letters[:1])); err != nil {
		return err
	}
	_, err = stream.DropLetters(f.ctx, client, f.address, "mailer", letterIDs(letters[1:]))
	return err
}

// TestRightsOfPartitions: with what the document adds for them, a writer and an operator do their work on partitions, and not
// without it.
func TestRightsOfPartitions(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			as := func(f *fixture, role string, more []string) *tier.Client {
				user := tiertest.NewUser(t, []*tiertest.Server{s}, append(rules(t, role, f.addr().Scope), more...)...)
				return tiertest.Dial(t, addressed(user.At(s)))
			}
			do := func(f *fixture, more []string) error {
				operator := as(f, "operator", more)
				if err := stream.Partition(f.ctx, operator, f.addr().Scope, 2); err != nil {
					return err
				}
				w, err := stream.NewPartitionedWriter(as(f, "writer", more), stream.WriterConfig{Address: f.address})
				require.NoError(t, err)
				if _, err := w.AppendBatch(f.ctx, keyed(20, 20)); err != nil {
					return err
				}
				if err := stream.Repartition(f.ctx, operator, f.addr().Scope, 3, nil); err != nil {
					return err
				}
				return errors.Join(stream.Check(f.ctx, operator, f.addr().Scope), stream.Check(f.ctx, operator, f.in(2).addr().Scope))
			}
			f := setUp(t, s)
			all := rules(t, "partitions", f.addr().Scope)
			require.NoError(t, do(f, all))
			for i := range all {
				f := setUp(t, s)
				some := slices.Delete(rules(t, "partitions", f.addr().Scope), i, i+1)
				require.ErrorIs(t, do(f, some), tier.ErrPermission, "%s is not needed", all[i])
				f.do("DEL", tier.ScopeKey(f.addr().Scope)) // not whole
				f.do("HDEL", tier.NodesKey, tier.ScopeNumberField(f.addr().Scope))
			}
		})
	}
}

// TestRightsOfPartitionOwners: with what the document adds for them, an owner takes part and owns.
func TestRightsOfPartitionOwners(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			f := setUp(t, s)
			f.partition(2)
			_, err := f.partitioned(stream.WriterConfig{}).Declare(f.ctx)
			require.NoError(t, err)
			own := func(more []string) error {
				user := tiertest.NewUser(t, []*tiertest.Server{s}, append(rules(t, "owner", f.addr().Scope), more...)...)
				c, err := stream.NewPartitionedCursor(tiertest.Dial(t, addressed(user.At(s))), stream.CursorConfig{Address: f.address, Name: "mailer", Start: stream.Head()})
				require.NoError(t, err)
				if _, _, err := c.Attend(f.ctx, "m"); err != nil {
					return err
				}
				for k := range 2 {
					one, err := c.Partition(k)
					require.NoError(t, err)
					owner, err := one.Join(f.ctx, "m")
					if err != nil {
						return err
					}
					if err := owner.Leave(f.ctx); err != nil {
						return err
					}
				}
				return c.Leave(f.ctx, "m")
			}
			all := rules(t, "partition-owner", f.addr().Scope)
			require.NoError(t, own(all))
			for i := range all {
				require.ErrorIs(t, own(slices.Delete(slices.Clone(all), i, i+1)), tier.ErrPermission, "%s is not needed", all[i])
			}
		})
	}
}

// TestRightsOnAClusterOrBySentinels: with what the document adds for them, the roles do their work there.
func TestRightsOnAClusterOrBySentinels(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.ValkeyCluster, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			for role, do := range roles {
				f := setUp(t, s)
				user := tiertest.NewUser(t, []*tiertest.Server{s}, append(rules(t, role, f.addr().Scope), rules(t, "cluster", f.addr().Scope)...)...)
				client := tiertest.Dial(t, addressed(user.At(s)))
				require.NoError(t, do(f, client), role)
			}
		})
	}
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		s := tiertest.NewSentinel(t, tiertest.Valkey)
		f := setUp(t, s.Primary)
		guest := tiertest.NewUser(t, s.Sentinels, rules(t, "sentinel", "")...)
		for _, sentinel := range s.Sentinels {
			sentinel.Command(t, "ACL", "SETUSER", "default", "off")
		}
		user := tiertest.NewUser(t, []*tiertest.Server{s.Primary}, append(rules(t, "writer", f.addr().Scope), "+role")...)
		client := tiertest.Dial(t, addressed(user.At(addressed(guest.AtSentinel(s)))))
		require.NoError(t, writerWork(f, client))
	})
}

// addressed is a URL as a server that has it.
type addressed string

func (a addressed) URL() string { return string(a) }

// TestRights (B149): each role does its work with exactly the rights that docs/security.md gives it. Without any one of
// the commands, the call that needs it is refused for good and names it.
func TestRights(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for role, do := range roles {
			t.Run(fmt.Sprint(role, ", ", kind), func(t *testing.T) {
				t.Parallel()
				s := tiertest.Private(t, kind)
				without := func(right string) error {
					f := setUp(t, s)
					f.do("SCRIPT", "FLUSH")
					f.do("HSET", tier.NodesKey, "x", "") // a registry with numbers
					f.do("HDEL", tier.NodesKey, "x")
					if right == "+set" {
						f.do("DEL", tier.VersionKey)
					}
					has := slices.DeleteFunc(rules(t, role, f.addr().Scope), func(r string) bool { return strings.ReplaceAll(r, f.addr().Scope, "s") == right })
					user := tiertest.NewUser(t, []*tiertest.Server{s}, has...)
					client, err := tier.Dial(f.ctx, user.At(s), tier.Options{})
					if err != nil {
						return err
					}
					defer client.Close()
					return do(f, client)
				}
				require.NoError(t, without(""))
				if kind == tiertest.Redis {
					return // that none of them is needless is the same to both
				}
				var wrong []string // all at once: who changes a script sees what its roles need
				for _, right := range rules(t, role, "s") {
					command, isCommand := strings.CutPrefix(right, "+")
					err := without(right)
					var lacks *tier.PermissionError
					switch {
					case !errors.Is(err, tier.ErrPermission) || !errors.As(err, &lacks) || tier.OutcomeUnknown(err):
						wrong = append(wrong, fmt.Sprintf("%s: %v", right, err))
					case isCommand && lacks.Command != command:
						wrong = append(wrong, fmt.Sprintf("%s is called %q: %v", right, lacks.Command, err))
					}
				}
				require.Empty(t, wrong)
			})
		}
	}
}

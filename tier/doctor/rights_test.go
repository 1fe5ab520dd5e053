package doctor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRights: each missing command and key is named, for each role; with all of them there is nothing to say.
func TestRights(t *testing.T) {
	tests := []struct {
		name  string
		rules []string
		want  map[string]string // role -> what it lacks
	}{
		{"all", []string{"~*", "+@all"}, nil},
		{"no XADD", []string{"~*", "+@all", "-xadd"}, map[string]string{
			"writer": "it lacks the command XADD", "consumer": "it lacks the command XADD",
		}},
		{"no XCLAIM and no HINCRBY", []string{"~*", "+@all", "-xclaim", "-hincrby"}, map[string]string{
			"consumer": "it lacks the command XCLAIM, the command HINCRBY",
		}},
		{"no scope's hash", []string{"~{emq}:*", "~emq:{shop}:stream:*", "+@all"}, map[string]string{
			"writer": "it lacks the key emq:{shop}:scope", "reader": "it lacks the key emq:{shop}:scope", "consumer": "it lacks the key emq:{shop}:scope",
		}},
		{"no write to dead letters", []string{"%R~emq:{shop}:stream:*:dead:*", "~{emq}:*", "~emq:{shop}:scope", "~emq:{shop}:stream:x", "~emq:{shop}:stream:*:pid:*", "~emq:{shop}:stream:*:seen:*", "~emq:{shop}:stream:*:g:*", "+@all"}, map[string]string{
			"consumer": "it lacks the key emq:{shop}:stream:x:dead:x",
		}},
		{"no XGROUP", []string{"~*", "+@all", "-xgroup"}, map[string]string{
			"consumer": "it lacks the command XGROUP CREATE, the command XGROUP DELCONSUMER",
		}},
	}
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, tt := range tests {
			t.Run(string(kind)+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				f := setUp(t, kind)
				u := tiertest.NewUser(t, []*tiertest.Server{f.server}, tt.rules...)
				f.client = tiertest.Dial(t, userURL(u.At(f.server)))
				got := map[string]string{}
				for _, finding := range coded(f.examine(doctor.Options{Scopes: []string{"shop"}}), "rights") {
					require.Equal(t, "scope shop", finding.Where)
					require.Equal(t, doctor.Warning, finding.Severity)
					for _, role := range []string{"writer", "reader", "consumer"} {
						if what, ok := cutRole(finding.What, role); ok {
							got[role] = what
						}
					}
				}
				require.Len(t, got, len(tt.want), "%v", got)
				for role, want := range tt.want {
					require.Equal(t, want, got[role], role)
				}
			})
		}
	}
}

// TestRolesNeedNoMore: with the commands that the table has for a role, and no others, it does all that it does.
func TestRolesNeedNoMore(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for role, play := range map[string]func(*fixture) error{"writer": writes, "reader": reads, "consumer": consumes} {
			t.Run(string(kind)+" "+role, func(t *testing.T) {
				t.Parallel()
				f := setUp(t, kind)
				u := tiertest.NewUser(t, []*tiertest.Server{f.server}, append(doctor.Commands(role), "~emq:*", "~{emq}:*", "+hello", "+ping")...)
				f.client = tiertest.Dial(t, userURL(u.At(f.server)))
				require.NoError(t, play(f))
				for _, finding := range coded(f.examine(doctor.Options{Scopes: []string{"shop"}}), "rights") {
					_, lacks := cutRole(finding.What, role)
					require.False(t, lacks, finding.What)
				}
			})
		}
	}
}

func writes(f *fixture) error {
	for _, cfg := range []stream.WriterConfig{{}, {Pack: 2}} {
		cfg.Address = "fresh/new"
		w, err := stream.NewWriter(f.client, cfg)
		if err != nil {
			return err
		}
		if _, err := w.AppendBatch(f.ctx, make([]codec.Message, 4)); err != nil {
			return err
		}
	}
	once, err := stream.NewWriter(f.client, stream.WriterConfig{Address: "fresh/new"})
	if err != nil {
		return err
	}
	if _, _, err := once.AppendOnce(f.ctx, "k", time.Minute, codec.Message{}); err != nil {
		return err
	}
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: "fresh/new", Producer: "p"})
	if err != nil {
		return err
	}
	_, err = w.AppendAt(f.ctx, 1, make([]codec.Message, 2))
	return err
}

func reads(f *fixture) error {
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: orders.String()})
	if err != nil {
		return err
	}
	last, err := r.Last(f.ctx, 1)
	if err != nil {
		return err
	}
	if _, err := r.Get(f.ctx, last[0].ID); err != nil {
		return err
	}
	for _, err := range r.Range(f.ctx, last[0].Addr.Prev(), codec.MaxEntryID) {
		if err != nil {
			return err
		}
	}
	seen := 0
	for _, err := range r.Tail(f.ctx, codec.EntryID{}) {
		if err != nil {
			return err
		}
		if seen++; seen == 3 {
			f.do("XADD", orders.LogKey(), "*", "payload", "x")
		}
		if seen == 4 {
			break
		}
	}
	return nil
}

func consumes(f *fixture) error {
	g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: orders.String(), Name: "other", Start: stream.Head()})
	if err != nil {
		return err
	}
	m, err := g.Join(f.ctx, "m")
	if err != nil {
		return err
	}
	leased, err := m.Read(f.ctx, 3, 0)
	if err != nil {
		return err
	}
	held := []tier.Held{{Entry: leased[0].Entry}}
	_, errRenew := m.Renew(f.ctx, []codec.EntryID{leased[0].Entry})
	errs := []error{errRenew, m.Release(f.ctx, held, 0)}
	f.do("HSET", orders.OwnersKey("other"), "lost", "1", "lost:beat", "1")
	f.do("XCLAIM", orders.LogKey(), "other", "lost", "0", leased[1].Entry.String(), "IDLE", "1000000")
	_, errTake := m.TakeOver(f.ctx, 10)
	_, errSettle := m.Settle(f.ctx, []codec.EntryID{leased[0].Entry, leased[1].Entry})
	errs = append(errs, errTake, errSettle, m.Bury(f.ctx, []tier.Held{{Entry: leased[2].Entry}}, "x"), m.Checkpoint(f.ctx), m.Retire(f.ctx), m.Leave(f.ctx))
	f.do("XGROUP", "DESTROY", orders.LogKey(), "other")
	_, errRebuild := m.Rebuild(f.ctx)
	return errors.Join(append(errs, errRebuild)...)
}

// TestLeastRights: a user that may hardly do anything gets an answer that says what could not be examined.
func TestLeastRights(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "~{emq}:*", "+get", "+hello", "+ping")
			f.client = tiertest.Dial(t, userURL(u.At(f.server)))
			r := f.examine(doctor.Options{Scopes: []string{"shop"}})
			require.Equal(t, doctor.Note, r.Worst(), "%v", r.Findings)
			var what string
			for _, n := range coded(r, "not-examined") {
				what += n.What + "\n"
			}
			for _, part := range []string{
				"the clock", "memory, persistence and role", "appendfsync and save", "capabilities", "the registry, or part of it,", "what must hold", "its number", "its streams", "the user's rights",
			} {
				require.Contains(t, what, part+" could not be examined: ")
			}
		})
	}
}

// TestRefused: a server that lets nobody in is diagnosed by the error of Dial.
func TestRefused(t *testing.T) {
	f := setUp(t, tiertest.Valkey)
	dial := func(url string) (doctor.Finding, bool) {
		c, err := tier.Dial(f.ctx, url, tier.Options{})
		if err == nil {
			c.Close()
		}
		return doctor.Refused(err)
	}
	u := tiertest.NewUser(t, []*tiertest.Server{f.server}, "+ping", "+hello")
	found, ok := dial(u.At(f.server))
	require.True(t, ok)
	require.Equal(t, "rights", found.Code)
	f.do("SET", tier.VersionKey, "echomq:9.0.0")
	found, ok = dial(f.server.URL())
	require.True(t, ok)
	require.Equal(t, "wire-version", found.Code)
	require.Contains(t, found.What, `"echomq:9.0.0"`)
	f.do("SET", tier.VersionKey, "\xff\xfe")
	found, ok = dial(f.server.URL())
	require.True(t, ok)
	require.Contains(t, found.What, `"\xff\xfe"`)
	_, ok = dial("unix:///nowhere.sock")
	require.False(t, ok)
	_, ok = doctor.Refused(nil)
	require.False(t, ok)

	pair := tiertest.NewReplicated(t, tiertest.Valkey)
	pair.WaitSynced(t)
	found, ok = dial(pair.Replica.URL())
	require.True(t, ok)
	require.Equal(t, "read-only", found.Code)
}

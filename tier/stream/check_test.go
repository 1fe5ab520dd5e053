package stream_test

import (
	"errors"
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// findings are what Check found, by key.
func findings(t testing.TB, err error) map[string]string {
	t.Helper()
	found := map[string]string{}
	if err == nil {
		return found
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%v", err)
	for _, err := range joined.Unwrap() {
		if _, joined := err.(interface{ Unwrap() []error }); joined {
			maps.Copy(found, findings(t, err))
			continue
		}
		var f *tier.Finding
		require.True(t, errors.As(err, &f), "%v", err)
		found[f.Key] += f.Broken
	}
	return found
}

// TestCheck breaks each invariant in turn: the audit names the key. What is sound passes, and nothing is changed.
func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(f *fixture)
		key   func(f *fixture) string // of the finding
	}{
		{"the registry has another number", func(f *fixture) {
			n, err := strconv.Atoi(f.text("HGET", tier.ScopeKey(f.addr().Scope), "node"))
			require.NoError(f.t, err)
			f.do("HSET", tier.NodesKey, "scope:"+f.addr().Scope, strconv.Itoa((n+1)%512))
		}, nodesKey},
		{"the registry has no number", func(f *fixture) { f.do("HDEL", tier.NodesKey, "scope:"+f.addr().Scope) }, nodesKey},
		{"the number is another scope's", func(f *fixture) {
			f.do("HSET", tier.NodesKey, "node:"+f.text("HGET", tier.ScopeKey(f.addr().Scope), "node"), "another")
		}, nodesKey},
		{"the number is nobody's", func(f *fixture) {
			f.do("HDEL", tier.NodesKey, "node:"+f.text("HGET", tier.ScopeKey(f.addr().Scope), "node"))
		}, nodesKey},
		{"the scope has no number", func(f *fixture) { f.do("HDEL", tier.ScopeKey(f.addr().Scope), "node") }, scopeKey},
		{"the scope's hash is none", func(f *fixture) {
			f.do("DEL", tier.ScopeKey(f.addr().Scope))
			f.do("SET", tier.ScopeKey(f.addr().Scope), "x")
		}, scopeKey},
		{"a brand that is none", func(f *fixture) { f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "ord") }, scopeKey},
		{"a brand of another stream", func(f *fixture) { f.do("HSET", tier.ScopeKey(f.addr().Scope), "brand:ORD", "other") }, scopeKey},
		{"a brand of no stream", func(f *fixture) { f.do("HSET", tier.ScopeKey(f.addr().Scope), "brand:XYZ", "other") }, scopeKey},
		{"a stream whose brand is not listed", func(f *fixture) { f.do("HDEL", tier.ScopeKey(f.addr().Scope), "brand:ORD") }, scopeKey},
		{"the log is none", func(f *fixture) {
			f.do("DEL", f.log())
			f.do("SET", f.log(), "x")
		}, func(f *fixture) string { return f.log() }},
		{
			"a removed stream has a log", func(f *fixture) { f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "-ORD") },
			func(f *fixture) string { return f.log() },
		},
		{"the group's hash is none", func(f *fixture) {
			f.do("DEL", f.addr().GroupKey("g"))
			f.do("SET", f.addr().GroupKey("g"), "x")
		}, func(f *fixture) string { return f.addr().GroupKey("g") }},
		{
			"the lease is no number", func(f *fixture) { f.do("HSET", f.addr().GroupKey("g"), "lease", "soon") },
			func(f *fixture) string { return f.addr().GroupKey("g") },
		},
		{
			"the start is no address", func(f *fixture) { f.do("HSET", f.addr().GroupKey("g"), "start", "head") },
			func(f *fixture) string { return f.addr().GroupKey("g") },
		},
		{"the owners are none", func(f *fixture) {
			f.do("DEL", f.addr().OwnersKey("g"))
			f.do("SADD", f.addr().OwnersKey("g"), "x")
		}, owners},
		{"what is parked has no rows", func(f *fixture) { f.do("ZADD", f.addr().RetryKey("g"), "1", "1-1") }, func(f *fixture) string { return f.addr().RetryKey("g") }},
		{"nothing is open of what is parked", func(f *fixture) {
			f.do("ZADD", f.addr().RetryKey("g"), "1", "1-1")
			f.do("HSET", f.addr().OpenKey("g"), "1-2", "1 0 1 0")
		}, func(f *fixture) string { return f.addr().RetryKey("g") }},
		{"the row of what is parked is damaged", func(f *fixture) { f.putAside(1, "1 0 x 0") }, open},
		{"the row of what is parked names no message", func(f *fixture) { f.putAside(1, "1 0") }, open},
		{"something else is parked", func(f *fixture) {
			f.do("ZADD", f.addr().RetryKey("g"), "1", "entry")
			f.do("HSET", f.addr().OpenKey("g"), "entry", "0")
		}, func(f *fixture) string { return f.addr().RetryKey("g") }},
		{"parked and pending", func(f *fixture) { f.putAside(0, "1 0 1 0") }, func(f *fixture) string { return f.addr().RetryKey("g") }},
		{
			"a row of what was settled", func(f *fixture) {
				id := f.all()[1].Position.Entry.String()
				f.do("HSET", f.addr().OpenKey("g"), id, "1 0 1 0")
				f.do("XACK", f.log(), "g", id)
			}, open,
		},
		{"a row that cannot be read", func(f *fixture) {
			f.do("HSET", f.addr().OpenKey("g"), f.all()[0].Position.Entry.String(), "x")
		}, open},
		{"a letter of nothing", func(f *fixture) { f.do("XADD", f.addr().DeadKey("g"), "*", "a", "b") }, dead},
		{"a letter without attempts", func(f *fixture) { f.do("XADD", f.addr().DeadKey("g"), "*", "entry", "1-1", "reason", "r", "m", "x") }, dead},
		{"a letter whose entry is none", func(f *fixture) {
			f.do("XADD", f.addr().DeadKey("g"), "*", "entry", "first", "reason", "r", "attempts", "1")
		}, dead},
		{"a letter whose index is none", func(f *fixture) {
			f.do("XADD", f.addr().DeadKey("g"), "*", "entry", "1-1", "index", "-1", "of", "2", "reason", "r", "attempts", "1")
		}, dead},
		{"a letter behind many", func(f *fixture) {
			for range 300 {
				f.do("XADD", f.addr().DeadKey("g"), "*", "entry", "1-1", "reason", "r", "attempts", "1")
			}
			f.do("XADD", f.addr().DeadKey("g"), "*", "entry", "1-1")
		}, dead},
		{
			"paused since a time that is none", func(f *fixture) { f.do("HSET", f.addr().GroupKey("g"), "paused", "yes") },
			func(f *fixture) string { return f.addr().GroupKey("g") },
		},
		{"a member's number is none", func(f *fixture) { f.do("HSET", f.addr().OwnersKey("g"), "m", "x", "m:beat", "1") }, owners},
		{"a member never beat", func(f *fixture) { f.do("HSET", f.addr().OwnersKey("g"), "m", "1") }, owners},
		{"a beat of nobody", func(f *fixture) { f.do("HSET", f.addr().OwnersKey("g"), "m:beat", "1") }, owners},
		{
			"the dead letters are none", func(f *fixture) { f.do("SET", f.addr().DeadKey("g"), "x") },
			func(f *fixture) string { return f.addr().DeadKey("g") },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, tiertest.Valkey))
			f.append(f.writer(stream.WriterConfig{Brand: "ORD"}), 3)
			f.append(f.at("other").writer(stream.WriterConfig{Brand: "OTH"}), 1)
			m := f.join(f.group("g", stream.Head(), 0))
			f.read(m, 2)
			check := func() error { return stream.Check(f.ctx, f.client, f.addr().Scope) }
			require.NoError(t, check())
			tt.spoil(f)
			before := f.text("DUMP", tier.ScopeKey(f.addr().Scope)) + f.text("DUMP", tier.NodesKey)
			found := findings(t, check())
			require.Len(t, found, 1, "%v", found)
			require.Contains(t, found, tt.key(f))
			require.NotEmpty(t, found[tt.key(f)])
			require.Equal(t, before, f.text("DUMP", tier.ScopeKey(f.addr().Scope))+f.text("DUMP", tier.NodesKey))
			f.do("FLUSHALL") // the audit at the end has nothing to find
		})
	}
}

func nodesKey(*fixture) string   { return tier.NodesKey }
func scopeKey(f *fixture) string { return tier.ScopeKey(f.addr().Scope) }
func owners(f *fixture) string   { return f.addr().OwnersKey("g") }
func open(f *fixture) string     { return f.addr().OpenKey("g") }
func dead(f *fixture) string     { return f.addr().DeadKey("g") }

// putAside parks one of the stream's entries by hand; the first two of them are pending already, unless they are acknowledged.
func (f *fixture) putAside(i int, row string) {
	id := f.all()[i].Position.Entry.String()
	if i > 0 {
		f.do("XACK", f.log(), "g", id)
	}
	f.do("ZADD", f.addr().RetryKey("g"), "1", id)
	f.do("HSET", f.addr().OpenKey("g"), id, row)
}

// TestCheckSound: what is in order, or not ours, is no finding.
func TestCheckSound(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		check := func() error { return stream.Check(f.ctx, f.client, f.addr().Scope) }
		require.NoError(t, check()) // no such scope
		_, err := f.writer(stream.WriterConfig{Brand: "ORD"}).Declare(f.ctx)
		require.NoError(t, err)
		require.NoError(t, check()) // declared, and empty
		f.append(f.writer(stream.WriterConfig{}), 1)
		f.do("XGROUP", "CREATE", f.log(), "raw", "0")
		f.do("XADD", f.log(), "*", "payload", "x")
		require.NoError(t, check())
		_, err = f.group("raw", stream.Head(), 0).Reset(f.ctx, stream.New())
		require.NoError(t, err)
		require.NoError(t, check())
		f.do("DEL", f.log())
		f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "-ORD")
		require.NoError(t, check())
		require.ErrorIs(t, stream.Check(f.ctx, f.client, "a:b"), tier.ErrName)
		_, err = collected(stream.Streams(f.ctx, f.client, "a:b"))
		require.ErrorIs(t, err, tier.ErrName)
		_, err = stream.Groups(f.ctx, f.client, "a:b")
		require.ErrorIs(t, err, tier.ErrName)
	})
}

// What is parked, open or dead by the scripts' own doing is sound; so is what was trimmed since.
func TestCheckOfWhatIsAside(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		check := func() { require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope)) }
		f.append(f.writer(stream.WriterConfig{}), 4)
		f.append(f.writer(stream.WriterConfig{Pack: 3}), 3)
		g := f.group("g", stream.Head(), 0)
		me := f.join(g)
		leased := f.read(me, 5)
		pack := leased[4]
		require.NoError(t, me.Commit(f.ctx, []tier.Ending{
			{Entry: leased[0].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}},
			{Entry: leased[1].Entry, Deliveries: 1, Dead: []tier.Letter{{Index: -1, Reason: "r", Attempts: 1}}},
			{Entry: pack.Entry, Deliveries: 1, Open: []tier.Open{{Index: 1, Attempt: 1}}, Dead: []tier.Letter{{Index: 0, Reason: "r", Attempts: 1}}},
		}))
		check()
		_, err := stream.Redrive(f.ctx, f.client, f.address, "g", letterIDs(f.dead()))
		require.NoError(t, err)
		check()
		taken, err := me.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Len(t, taken.Leased, 3)
		check()
		require.NoError(t, me.Commit(f.ctx, []tier.Ending{{Entry: pack.Entry, Deliveries: 2, Open: []tier.Open{{Index: 1, Attempt: 1}}}}))
		f.do("XDEL", f.log(), pack.Entry.String()) // parked, and trimmed
		check()
		require.NoError(t, g.Pause(f.ctx))
		check()
	})
}

// TestListingsNameTheWrongKey: a key of another type is named, not its neighbour.
func TestListingsNameTheWrongKey(t *testing.T) {
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	require.NoError(t, f.group("g", stream.Head(), 0).Create(f.ctx))
	for _, key := range []string{f.addr().DeadKey("g"), f.addr().GroupKey("g"), f.log()} {
		f.do("DEL", key)
		f.do("SET", key, "x")
		_, err := stream.Groups(f.ctx, f.client, f.address)
		require.ErrorIs(t, err, tier.ErrWrongType)
		require.ErrorContains(t, err, " "+key+":")
		f.do("DEL", key)
	}
	f.do("FLUSHALL")
}

package doctor_test

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestSound: a deployment in order has no finding, on every kind of server; what was examined is counted.
func TestSound(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster, tiertest.Redis, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			for _, scopes := range [][]string{nil, {"shop"}, {"shop", "shop"}} {
				r := f.examine(doctor.Options{Scopes: scopes})
				require.Equal(t, doctor.Report{Nodes: 1, Scopes: 1, Streams: 1, Groups: 1}, r)
				require.Empty(t, r.Worst())
			}
		})
	}
	f := setUp(t, tiertest.Valkey)
	_, err := doctor.Examine(f.ctx, f.client, doctor.Options{Scopes: []string{"a:b"}})
	require.ErrorIs(t, err, tier.ErrName)
}

// TestFound brings a server into each state in turn: the finding is the only one, and says where. Nothing is changed.
func TestFound(t *testing.T) {
	long := strconv.FormatInt(time.Now().Add(-24*time.Hour).UnixMilli(), 10)
	mailer := orders.String() + " group mailer"
	tests := []struct {
		name     string
		args     []string // of the server
		spoil    func(f *fixture)
		options  doctor.Options
		code     string
		severity doctor.Severity
		where    string // empty: the node
		what     string
	}{
		{name: "B65: streams may be evicted", args: []string{"--maxmemory-policy", "allkeys-lru"}, code: "eviction", severity: doctor.Error, what: "allkeys-lru: a full server drops whole streams"},
		{name: "receipts may be evicted", args: []string{"--maxmemory-policy", "volatile-lru"}, code: "eviction", severity: doctor.Warning, what: "drops receipts"},
		{name: "no persistence", spoil: func(f *fixture) { f.do("CONFIG", "SET", "appendonly", "no") }, code: "persistence", severity: doctor.Warning, what: "no snapshots"},
		{name: "snapshots only", spoil: func(f *fixture) { f.do("CONFIG", "SET", "appendonly", "no", "save", "3600 1") }, code: "persistence", severity: doctor.Warning, what: "since the last snapshot"},
		{name: "no fsync", args: []string{"--appendfsync", "no"}, code: "fsync", severity: doctor.Warning, what: "power failure"},
		{name: "a renamed command", args: []string{"--rename-command", "UNLINK", "GONE"}, code: "capabilities", severity: doctor.Error, what: "lacks UNLINK"},
		{
			name: "CONFIG is renamed away", args: []string{"--rename-command", "CONFIG", ""}, code: "not-examined", severity: doctor.Note,
			what: "appendfsync and save could not be examined: unknown command 'CONFIG'",
		},
		{
			name: "a group after a reset to a wrong year", spoil: func(f *fixture) {
				f.do("XGROUP", "SETID", orders.LogKey(), "mailer", fmt.Sprintf("%d-0", time.Now().Add(3*365*24*time.Hour).UnixMilli()))
			}, code: "group-ahead", severity: doctor.Error, where: mailer, what: "everything until then is skipped",
		},
		{name: "full", spoil: func(f *fixture) { f.do("CONFIG", "SET", "maxmemory", "1") }, code: "memory", severity: doctor.Error, what: "the server is full"},
		{
			name: "an id in the future", spoil: func(f *fixture) {
				f.do("XADD", orders.LogKey(), fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli()), "m", "x")
			}, code: "ids-ahead", severity: doctor.Warning, where: orders.String(), what: "ahead of the clock",
		},
		{
			name: "B72: no ids are left", spoil: func(f *fixture) { f.do("XADD", orders.LogKey(), "18446744073709551615-1", "m", "x") },
			code: "ids-end", severity: doctor.Error, where: orders.String(), what: "its last one is 18446744073709551615-1",
		},
		{
			name: "B64: a large stream that nothing bounds", options: doctor.Options{Marks: doctor.Marks{StreamBytes: 100}},
			code: "unbounded", severity: doctor.Warning, where: orders.String(), what: "more than 100 B",
		},
		{
			name: "a dead group", spoil: func(f *fixture) { f.do("HSET", orders.OwnersKey("mailer"), f.member.Name()+":beat", long) },
			code: "group-dead", severity: doctor.Warning, where: mailer, what: "no consumer is alive; 1 entry is unread, 2 are pending; the oldest was appended ",
		},
		{
			name: "a consumer past its lease beside a live one", spoil: func(f *fixture) {
				f.do("HSET", orders.OwnersKey("mailer"), f.member.Name()+":beat", long)
				f.do("XREADGROUP", "GROUP", "mailer", "alive", "COUNT", "1", "STREAMS", orders.LogKey(), ">")
			}, code: "lease-ended", severity: doctor.Warning, where: mailer, what: "1 consumer is silent past the lease of 30s, 2 entries are pending",
		},
		{
			name: "B34: many dead consumers", spoil: func(f *fixture) {
				for i := range 1000 {
					f.do("HSET", orders.OwnersKey("mailer"), fmt.Sprint("old", i), "1", fmt.Sprint("old", i, ":beat"), long)
				}
			}, code: "consumers-dead", severity: doctor.Warning, where: mailer, what: "1000 consumers are silent, and nothing is pending for them",
		},
		{
			name: "a cursor that nobody owns", spoil: func(f *fixture) {
				c, err := stream.NewCursor(f.client, stream.CursorConfig{Address: orders.String(), Name: "ledger", Start: stream.Head()})
				require.NoError(f.t, err)
				_, err = c.Join(f.ctx, "m")
				require.NoError(f.t, err)
				f.do("HSET", orders.CursorsKey(), "ledger:until", long)
			}, code: "cursor-dead", severity: doctor.Warning, where: orders.String() + " cursor ledger", what: "nobody owns it; lag 3",
		},
		{
			name: "dead letters", spoil: func(f *fixture) {
				f.do("XADD", orders.DeadKey("mailer"), "*", "entry", "1-1", "reason", "r", "attempts", "1")
			},
			code: "dead-letters", severity: doctor.Warning, where: mailer, what: "1 message was put aside",
		},
		{
			name: "B62: pending entries that were trimmed", spoil: func(f *fixture) { f.do("XTRIM", orders.LogKey(), "MAXLEN", "1") },
			code: "pending-trimmed", severity: doctor.Note, where: mailer, what: "is gone",
		},
		{
			name: "a damaged scope", spoil: func(f *fixture) { f.do("HSET", tier.ScopeKey("shop"), "brand:XYZ", "other") },
			code: "broken", severity: doctor.Error, where: tier.ScopeKey("shop"), what: "brand",
		},
		{
			name: "a scope that is gone", spoil: func(f *fixture) { f.do("HSET", tier.NodesKey, "scope:lost", "7", "node:7", "lost") },
			code: "scope-lost", severity: doctor.Warning, where: "scope lost", what: "the scope itself is gone",
		},
		{
			name: "a number that nobody holds", spoil: func(f *fixture) { f.do("HSET", tier.NodesKey, "node:7", "nobody") },
			code: "registry", severity: doctor.Error, where: tier.NodesKey, what: `number 7 belongs to "nobody"`,
		},
		{
			name: "processes, nearly too many", spoil: func(f *fixture) {
				for i := range 470 {
					f.do("HSET", tier.NodesKey, fmt.Sprint("node:", 512+i), "x 99999999999999")
				}
				for i := 470; i < 512; i++ { // whose lease has ended
					f.do("HSET", tier.NodesKey, fmt.Sprint("node:", 512+i), "x 1000")
				}
			}, code: "registry-full", severity: doctor.Warning, where: tier.NodesKey, what: "470 of 512",
		},
		{
			name: "another minor version", spoil: func(f *fixture) { f.do("SET", tier.VersionKey, "echomq:3.1.0") },
			code: "wire-version", severity: doctor.Note, where: tier.VersionKey, what: "echomq:3.1.0",
		},
		{
			name: "this host's clock is behind", options: doctor.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }},
			code: "clock", severity: doctor.Warning, what: "differ by 1h",
		},
		{
			name: "this host's clock is ahead", options: doctor.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }},
			code: "clock", severity: doctor.Error, what: "are refused",
		},
	}
	for _, tt := range tests {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			t.Run(fmt.Sprint(tt.name, " ", kind), func(t *testing.T) {
				t.Parallel()
				f := setUp(t, kind, tt.args...)
				if tt.spoil != nil {
					tt.spoil(f)
				}
				r := f.examine(tt.options)
				require.Equal(t, tt.code, codes(r), "%v", r.Findings)
				got := r.Findings[0]
				where := tt.where
				if where == "" {
					where = f.client.Nodes()[0].Addr
				}
				require.Equal(t, tt.severity, got.Severity)
				require.Equal(t, where, got.Where)
				require.Contains(t, got.What, tt.what)
				require.NotEmpty(t, got.Do)
				if tt.code != "not-examined" {
					f.do("CONFIG", "SET", "maxmemory", "0")
				}
			})
		}
	}
}

// TestCluster: a cluster that lacks a slot is not ok, and what it does not answer is said.
func TestCluster(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.ValkeyCluster, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, kind)
			f.do("CONFIG", "SET", "cluster-require-full-coverage", "yes")
			used := map[int]bool{tier.Slot(tier.NodesKey): true, tier.Slot(tier.ScopeKey("shop")): true}
			free := 0
			for used[free] {
				free++
			}
			f.do("CLUSTER", "DELSLOTS", strconv.Itoa(free))
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				_, err := f.client.Now(f.ctx, tier.NodesKey)
				return err != nil, "it still answers"
			})
			r := f.examine(doctor.Options{Scopes: []string{"shop"}})
			require.Equal(t, doctor.Error, r.Worst(), "%v %v", r.Findings, f.client.Nodes())
			require.Equal(t, "cluster", r.Findings[0].Code)
			require.Equal(t, "the cluster is not ok: fail", r.Findings[0].What)
			require.NotEmpty(t, coded(r, "not-examined"))
		})
	}
}

// TestReplica: a server that cannot be written to says where its primary is.
func TestReplica(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			pair := tiertest.NewReplicated(t, kind, "--appendonly", "yes")
			f := &fixture{t: t, ctx: t.Context(), server: pair.Primary, client: tiertest.Dial(t, pair.Primary)}
			_, err := f.client.ScopeNode(f.ctx, "shop")
			require.NoError(t, err)
			pair.WaitSynced(t)
			f.client = tiertest.Dial(t, pair.Replica)
			list := coded(f.examine(doctor.Options{}), "read-only")
			require.Len(t, list, 1)
			require.Equal(t, doctor.Error, list[0].Severity)
			require.Equal(t, "connect to its primary, "+pair.Primary.Addr(), list[0].Do)
		})
	}
}

// TestClusterOfSix: all nodes of a cluster are looked at, replicas too, and a scope is found wherever it lies; a node
// that is down is named, and the rest is examined all the same.
func TestClusterOfSix(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := tiertest.NewCluster(t, kind)
			for _, s := range c.Nodes {
				s.Command(t, "CONFIG", "SET", "appendonly", "yes")
			}
			f := &fixture{t: t, ctx: t.Context(), client: tiertest.Dial(t, c)}
			for _, scope := range []string{"a", "b", "c"} {
				w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: scope + "/orders"})
				require.NoError(t, err)
				_, err = w.Append(f.ctx, codec.Message{})
				require.NoError(t, err)
			}
			tiertest.Eventually(t, time.Minute, func() (bool, string) { // the nodes' views of each other agree after a while
				f.client = tiertest.Dial(t, c)
				r := f.examine(doctor.Options{})
				return reflect.DeepEqual(r, doctor.Report{Nodes: 6, Scopes: 3, Streams: 3}), fmt.Sprint(r)
			})

			gone := c.Replica(t, c.Master(t, tier.NodesKey))
			gone.Kill()
			tiertest.Eventually(t, time.Minute, func() (bool, string) { // by its silence, or by what the others say
				list := coded(f.examine(doctor.Options{Scopes: []string{"a"}}), "unreachable")
				return len(list) == 1 && list[0].Where == gone.Addr(), fmt.Sprint(list)
			})

			// A primary and its replica are down: what the others serve is examined, by who connects now as well.
			var lost string
			for _, scope := range []string{"a", "b", "c"} {
				if c.Master(t, tier.ScopeKey(scope)) != c.Master(t, tier.NodesKey) {
					lost = scope
				}
			}
			primary := c.Master(t, tier.ScopeKey(lost))
			replica := c.Replica(t, primary)
			for _, s := range c.Nodes {
				if s != gone {
					s.Command(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
				}
			}
			replica.Kill()
			primary.Kill()
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				client, err := tier.Dial(f.ctx, c.URL(), tier.Options{CallTimeout: 2 * time.Second})
				if err != nil {
					return false, err.Error()
				}
				defer client.Close()
				r, err := doctor.Examine(f.ctx, client, doctor.Options{})
				if err != nil {
					return false, err.Error()
				}
				down := map[string]bool{}
				for _, finding := range coded(r, "unreachable") {
					down[finding.Where] = true
				}
				return len(down) == 3 && down[primary.Addr()] && r.Scopes == 3 && r.Streams == 2, fmt.Sprint(r)
			})
		})
	}
}

// TestRetained (B64): a large stream that has a policy of retention is no finding.
func TestRetained(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Valkey)
	o := doctor.Options{Scopes: []string{"shop"}, Marks: doctor.Marks{StreamBytes: 100}}
	require.Len(t, coded(f.examine(o), "unbounded"), 1)
	require.NoError(t, stream.SetRetention(f.ctx, f.client, orders.String(), stream.Retention{MaxLength: 1000}))
	require.Empty(t, coded(f.examine(o), "unbounded"))
}

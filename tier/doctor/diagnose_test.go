package doctor_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
	"github.com/echomq/pipeline/tier/stream"
)

// sound are facts without a finding.
func sound() doctor.Facts {
	return doctor.Facts{
		Wire:     tier.Wire,
		Nodes:    []doctor.Node{node("a", nil)},
		Registry: doctor.Registry{Scopes: map[string]string{"shop": "7"}, Holders: map[string]string{"7": "shop"}},
	}
}

func node(addr string, info map[string]string) doctor.Node {
	all := map[string]string{
		"role": "master", "maxmemory_policy": "noeviction", "used_memory": "10", "maxmemory": "1000", "aof_enabled": "1",
		"aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok", "rdb_last_bgsave_status": "ok",
	}
	maps.Copy(all, info)
	return doctor.Node{Addr: addr, Info: all, Config: map[string]string{"appendfsync": "everysec", "save": ""}, Blur: time.Millisecond}
}

func scoped(s doctor.Stream) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		s.Address = tier.Address{Scope: "shop", Stream: "orders"}
		f.Scopes = []doctor.Scope{{Name: "shop", Known: true, Streams: []doctor.Stream{s}}}
	}
}

func grouped(g stream.GroupDetail) func(*doctor.Facts) {
	g.Name = "g"
	return scoped(doctor.Stream{Groups: []stream.GroupDetail{g}})
}

// cursored is a stream, looked at now, with a cursor.
func cursored(now time.Time, c stream.CursorInfo) func(*doctor.Facts) {
	c.Name = "c"
	return scoped(doctor.Stream{Now: now, Cursors: []stream.CursorInfo{c}})
}

func informed(field, value string) func(*doctor.Facts) {
	return func(f *doctor.Facts) { f.Nodes[0] = node("a", map[string]string{field: value}) }
}

// TestDiagnose: what each fact means, on both sides of each mark; what is not known is no finding.
func TestDiagnose(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	at := func(d time.Duration) codec.EntryID { return codec.FloorEntry(now.Add(d)) }
	silent := func(d time.Duration, pending int64) stream.ConsumerInfo {
		return stream.ConsumerInfo{Name: "m", Member: true, Silence: d, Pending: pending, Overdue: pending > 0 && d > stream.DefaultLease}
	}
	tests := []struct {
		name  string
		spoil func(*doctor.Facts)
		want  string // severity, code and where
	}{
		{"sound", func(*doctor.Facts) {}, ""},
		{"nothing known", func(f *doctor.Facts) { *f = doctor.Facts{Nodes: []doctor.Node{{Addr: "a"}}} }, ""},
		{"85 percent", informed("used_memory", "850"), "warning memory a"},
		{"84 percent", informed("used_memory", "849"), ""},
		{"full", informed("used_memory", "1000"), "error memory a"},
		{"the machine is nearly full", func(f *doctor.Facts) {
			f.Nodes[0] = node("a", map[string]string{"maxmemory": "0", "total_system_memory": "11"})
		}, "warning memory a"},
		{"no bound", informed("maxmemory", "0"), ""},
		{"a disk that takes nothing", informed("aof_last_write_status", "err"), "error disk a"},
		{"a snapshot that failed", informed("rdb_last_bgsave_status", "err"), "error disk a"},
		{"a node that is down", func(f *doctor.Facts) { f.Nodes = append(f.Nodes, doctor.Node{Addr: "b", Silent: "gone"}) }, "error unreachable b"},
		{"nodes that have failed", func(f *doctor.Facts) {
			f.Nodes[0].Failed = []string{"b", "c"}
			other := node("d", nil)
			other.Failed = []string{"c"}
			f.Nodes = append(f.Nodes, doctor.Node{Addr: "b", Silent: "gone"}, other)
		}, "error unreachable b\nwarning unreachable c"},
		{"a replica", informed("role", "slave"), "error read-only a"},
		{"a replica in a cluster", func(f *doctor.Facts) {
			f.Nodes = append(f.Nodes, node("b", map[string]string{"role": "slave", "master_link_status": "up"}))
		}, ""},
		{"a replica without its primary", func(f *doctor.Facts) {
			f.Nodes = append(f.Nodes, node("b", map[string]string{"role": "slave", "master_link_status": "down"}))
		}, "warning replica-link b"},
		{"clocks of nodes apart", func(f *doctor.Facts) {
			f.Nodes = append(f.Nodes, node("b", nil))
			f.Nodes[0].Skew, f.Nodes[1].Skew = -600*time.Millisecond, 600*time.Millisecond
		}, "warning clock b"},
		{"clocks that the network may explain", func(f *doctor.Facts) { f.Nodes[0].Skew, f.Nodes[0].Blur = 3*time.Second, 2*time.Second }, ""},
		{"a host a minute ahead", func(f *doctor.Facts) { f.Nodes[0].Skew = -time.Minute - time.Second }, "error clock a"},
		{"a host behind", func(f *doctor.Facts) { f.Nodes[0].Skew = time.Minute + time.Second }, "warning clock a"},
		{"all scopes", func(f *doctor.Facts) {
			for i := range 512 {
				f.Registry.Scopes[fmt.Sprint("s", i)], f.Registry.Holders[fmt.Sprint(i)] = fmt.Sprint(i), fmt.Sprint("s", i)
			}
			delete(f.Registry.Scopes, "shop")
		}, "error registry-full {emq}:nodes"},
		{"few processes", func(f *doctor.Facts) { f.Registry.Leased = 459 }, ""},
		{"many processes", func(f *doctor.Facts) { f.Registry.Leased = 460 }, "warning registry-full {emq}:nodes"},
		{"a primary alone", informed("connected_slaves", "0"), ""},
		{"a primary of a cluster without a replica", func(f *doctor.Facts) {
			f.Nodes = []doctor.Node{node("a", map[string]string{"connected_slaves": "0"}), node("b", map[string]string{"connected_slaves": "1"})}
		}, "note no-replica a"},
		{"a number without a holder", func(f *doctor.Facts) { f.Registry.Holders = nil }, "error registry {emq}:nodes"},
		{"ids a little ahead", scoped(doctor.Stream{Info: stream.Info{Last: at(time.Second)}, Now: now}), ""},
		{"ids ahead", scoped(doctor.Stream{Info: stream.Info{Last: at(2 * time.Second)}, Now: now}), "warning ids-ahead shop/orders"},
		{"the last id but two (B72)", scoped(doctor.Stream{Info: stream.Info{Last: codec.EntryID{Ms: 3903090455549}}, Now: now}), "error ids-end shop/orders"},
		{"a GiB (B64)", scoped(doctor.Stream{Bytes: 1 << 30}), ""},
		{"more than a GiB (B64)", scoped(doctor.Stream{Bytes: 1<<30 + 1}), "warning unbounded shop/orders"},
		{"more than a GiB, by policy (B64)", scoped(doctor.Stream{Bytes: 1<<30 + 1, Retained: true}), ""},
		{"a removed stream", scoped(doctor.Stream{Info: stream.Info{Removed: true}, Bytes: 1 << 40}), ""},
		{"dead for a while", grouped(stream.GroupDetail{State: stream.Dead, Who: []stream.ConsumerInfo{silent(time.Hour, 0)}}), ""},
		{"dead for long", grouped(stream.GroupDetail{State: stream.Dead, Who: []stream.ConsumerInfo{silent(2*time.Hour, 1)}}), "warning group-dead shop/orders group g"},
		{
			"nobody ever came", grouped(stream.GroupDetail{State: stream.Dead, GroupInfo: stream.GroupInfo{OldestUnreadAge: 2 * time.Hour}}),
			"warning group-dead shop/orders group g",
		},
		{"idle for long", grouped(stream.GroupDetail{State: stream.Idle, Who: []stream.ConsumerInfo{silent(2*time.Hour, 0)}}), ""},
		{"paused", grouped(stream.GroupDetail{State: stream.Paused, GroupInfo: stream.GroupInfo{Paused: true, PausedSince: now}, Who: []stream.ConsumerInfo{silent(2*time.Hour, 1)}}), "note group-paused shop/orders group g"},
		{"a cursor that has been free for an hour", cursored(now, stream.CursorInfo{State: stream.Dead, Owner: "m", Until: now.Add(-time.Hour), Lag: 1}), ""},
		{
			"a cursor that has been free for longer", cursored(now, stream.CursorInfo{State: stream.Dead, Owner: "m", Until: now.Add(-time.Hour - time.Second), Lag: 1}),
			"warning cursor-dead shop/orders cursor c",
		},
		{"a cursor that was handed over, with what is new", cursored(now, stream.CursorInfo{State: stream.Dead, Lag: 1, OldestUnreadAge: time.Minute}), ""},
		{
			"a cursor that was handed over, with what waits", cursored(now, stream.CursorInfo{State: stream.Dead, Lag: 1, OldestUnreadAge: 2 * time.Hour}),
			"warning cursor-dead shop/orders cursor c",
		},
		{
			"a cursor that was handed over, with what is parked", cursored(now, stream.CursorInfo{State: stream.Dead, Parked: 1, CheckpointAge: 2 * time.Hour}),
			"warning cursor-dead shop/orders cursor c",
		},
		{"a cursor without anything to do", cursored(now, stream.CursorInfo{State: stream.Idle, Owner: "m", CheckpointAge: 2 * time.Hour}), ""},
		{"an owner that died once", cursored(now, stream.CursorInfo{State: stream.Active, Crashes: 1}), ""},
		{"an owner that died twice", cursored(now, stream.CursorInfo{State: stream.Active, Crashes: 2}), "warning cursor-crashes shop/orders cursor c"},
		{"a paused cursor", cursored(now, stream.CursorInfo{State: stream.Paused, Paused: true, Owner: "m", Lag: 1}), "note cursor-paused shop/orders cursor c"},
		{"dead letters of a cursor", cursored(now, stream.CursorInfo{State: stream.Idle, Dead: 1}), "warning dead-letters shop/orders cursor c"},
		{"past the lease", grouped(stream.GroupDetail{State: stream.Active, Who: []stream.ConsumerInfo{silent(50*time.Second, 1)}}), ""},
		{"past two leases", grouped(stream.GroupDetail{State: stream.Active, Who: []stream.ConsumerInfo{silent(61*time.Second, 1)}}), "warning lease-ended shop/orders group g"},
		{"100 dead consumers (B34)", grouped(stream.GroupDetail{State: stream.Idle, Who: repeated(silent(time.Hour, 0), 100)}), ""},
		{"101 dead consumers (B34)", grouped(stream.GroupDetail{State: stream.Idle, Who: repeated(silent(time.Hour, 0), 101)}), "warning consumers-dead shop/orders group g"},
		{
			"a group a minute ahead", func(f *doctor.Facts) {
				scoped(doctor.Stream{Now: now, Groups: []stream.GroupDetail{{GroupInfo: stream.GroupInfo{Name: "g", LastDelivered: at(time.Minute)}}}})(f)
			}, "",
		},
		{
			"a group further ahead", func(f *doctor.Facts) {
				scoped(doctor.Stream{Now: now, Groups: []stream.GroupDetail{{GroupInfo: stream.GroupInfo{Name: "g", LastDelivered: at(time.Minute + time.Second)}}}})(f)
			}, "error group-ahead shop/orders group g",
		},
		{
			"a group as far as its stream", func(f *doctor.Facts) {
				scoped(doctor.Stream{
					Now: now, Info: stream.Info{Last: at(2 * time.Minute)},
					Groups: []stream.GroupDetail{{GroupInfo: stream.GroupInfo{Name: "g", LastDelivered: at(2 * time.Minute)}}},
				})(f)
			}, "warning ids-ahead shop/orders",
		},
		{"no scope could be listed", func(f *doctor.Facts) { f.Unexamined = []doctor.Unexamined{{Where: "a", What: "it", All: true}} }, "warning not-examined a"},
		{"two lacks of a role", func(f *doctor.Facts) {
			f.Rights = []doctor.Lack{{Scope: "shop", Role: "writer", What: "x"}, {Scope: "shop", Role: "writer", What: "y"}}
		}, "note rights scope shop"},
		{"a lack of the role that the user is to have", func(f *doctor.Facts) {
			f.Rights = []doctor.Lack{{Scope: "shop", Role: "writer", What: "x", Meant: true}}
		}, "error rights scope shop"},
		{"not examined", func(f *doctor.Facts) { f.Unexamined = []doctor.Unexamined{{Where: "a", What: "it"}} }, "note not-examined a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sound()
			tt.spoil(&f)
			got := ""
			for _, finding := range doctor.Diagnose(f, doctor.Marks{}) {
				got += fmt.Sprintf("%s %s %s\n", finding.Severity, finding.Code, finding.Where)
			}
			if tt.want != "" {
				tt.want += "\n"
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func repeated[T any](v T, n int) (list []T) {
	for range n {
		list = append(list, v)
	}
	return list
}

// TestTheWorstComesFirst: findings are ordered by severity, then by place.
func TestTheWorstComesFirst(t *testing.T) {
	f := sound()
	f.Unexamined = []doctor.Unexamined{{Where: "0"}}
	f.Nodes = []doctor.Node{node("b", map[string]string{"aof_enabled": "0"}), node("a", map[string]string{"aof_enabled": "0", "used_memory": "1000"})}
	r := doctor.Report{Findings: doctor.Diagnose(f, doctor.Marks{})}
	require.Equal(t, doctor.Error, r.Worst())
	require.Equal(t, "memory persistence persistence not-examined", codes(r))
	require.Equal(t, "a", r.Findings[1].Where)
}

// TestWords: what findings say of times and numbers, and of settings that have to outlive a restart.
func TestWords(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	ahead := func(d time.Duration) func(*doctor.Facts) {
		return scoped(doctor.Stream{Info: stream.Info{Last: codec.FloorEntry(now.Add(d))}, Now: now})
	}
	const day = 24 * time.Hour
	waits := stream.GroupInfo{Lag: 1, Pending: 2, OldestUnreadAge: 3 * day, OldestPendingAge: 4 * day}
	kept := "then CONFIG REWRITE, or write it into the configuration file: a restart forgets it otherwise"
	tests := []struct {
		name     string
		spoil    func(*doctor.Facts)
		what, do string // part of it
	}{
		{"an hour ahead", ahead(time.Hour), "1h0m0s ahead of the clock", "nothing is lost"},
		{"three days ahead", ahead(3 * day), "3 days ahead of the clock", "copy what is needed to another stream, then 'pipeline stream rm shop/orders'"},
		{"years ahead", ahead(3 * 365 * day), "3 years ahead of the clock", "'pipeline stream rm shop/orders'"},
		{
			"a dead group of which nobody was heard", grouped(stream.GroupDetail{State: stream.Dead, GroupInfo: waits}),
			"no consumer is alive; 1 entry is unread, 2 are pending; the oldest was appended 4 days ago", "",
		},
		{
			"a dead group whose consumer beat", grouped(stream.GroupDetail{State: stream.Dead, GroupInfo: waits, Who: []stream.ConsumerInfo{{Silence: 2 * time.Hour}}}),
			"the oldest was appended 4 days ago; a consumer was last heard of 2h0m0s ago", "",
		},
		{
			"a cursor that nobody owns", cursored(now, stream.CursorInfo{State: stream.Dead, Lag: 7, Parked: 1, OldestUnreadAge: 2 * time.Hour}),
			"nobody owns it; lag 7, 1 entry is parked; the oldest was appended 2h0m0s ago", "'pipeline group delete shop/orders --group c'",
		},
		{
			"an owner that dies", cursored(now, stream.CursorInfo{State: stream.Active, Crashes: 3, Checkpoint: codec.EntryID{Ms: 7}, OldestUnread: codec.EntryID{Ms: 9}}),
			"its owner died 3 times at 7-0 without getting any further", "'pipeline range shop/orders --from 9-0 --limit 1'",
		},
		{"a full server drops", informed("maxmemory_policy", "allkeys-lru"), "", "CONFIG SET maxmemory-policy noeviction, " + kept},
		{"a full server drops receipts", informed("maxmemory_policy", "volatile-lru"), "", "CONFIG SET maxmemory-policy noeviction, " + kept},
		{"no append-only file", informed("aof_enabled", "0"), "", "CONFIG SET appendonly yes, " + kept},
		{"no snapshots", func(f *doctor.Facts) {
			f.Nodes[0] = node("a", map[string]string{"aof_enabled": "0"})
			f.Nodes[0].Config["save"] = "60 1"
		}, "", "CONFIG SET appendonly yes, " + kept},
		{"no fsync", func(f *doctor.Facts) { f.Nodes[0].Config["appendfsync"] = "no" }, "", "CONFIG SET appendfsync everysec, " + kept},
		{"the same fault of the registry", func(f *doctor.Facts) { // as Check and the registry have it
			f.Registry.Holders["7"] = "other"
			f.Scopes = []doctor.Scope{{Name: "shop", Known: true, Broken: []tier.Finding{{Key: tier.NodesKey, Broken: "has number 7"}}}}
		}, `number 7 belongs to "other"`, "restore"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sound()
			tt.spoil(&f)
			list := doctor.Diagnose(f, doctor.Marks{})
			require.Len(t, list, 1, "%v", list)
			require.Contains(t, list[0].What, tt.what)
			require.Contains(t, list[0].Do, tt.do)
		})
	}
}

package tier_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// addressKeys are the keys of an address, one of each builder.
func addressKeys(a tier.Address) map[string]string {
	return map[string]string{
		"ScopeKey":       tier.ScopeKey(a.Scope),
		"AtRestKey":      tier.AtRestKey(a.Scope),
		"LogKey":         a.LogKey(),
		"ProducerKey":    a.ProducerKey("p"),
		"SeenKey":        a.SeenKey("k"),
		"NotedKey":       tier.NotedKey(a.Scope, a.Stream, "k"),
		"IndexKey":       a.IndexKey("k"),
		"SnapshotKey":    a.SnapshotKey("k"),
		"FoldKey":        a.FoldKey("p.1"),
		"GroupKey":       a.GroupKey("g"),
		"OwnersKey":      a.OwnersKey("g"),
		"RetryKey":       a.RetryKey("g"),
		"OpenKey":        a.OpenKey("g"),
		"DeadKey":        a.DeadKey("g"),
		"CursorsKey":     a.CursorsKey(),
		"StateKey":       tier.StateKey(a.Scope, "total"),
		"DoneKey":        a.DoneKey("g", "k"),
		"ProjectionsKey": tier.ProjectionsKey(a.Scope),
		"MembersKey":     a.MembersKey("g"),
		"SweeperKey":     tier.SweeperKey(a.Scope),
		"RetentionKey":   a.RetentionKey(),
		"ArchivedKey":    a.ArchivedKey(),
		"RestoreKey":     a.RestoreKey(),
	}
}

// queueKeys are the keys of a queue, one of each builder.
func queueKeys(q tier.Queue) map[string]string {
	return map[string]string{
		"QueueKey":       q.QueueKey(),
		"LaneKey":        q.LaneKey("l"),
		"LanesKey":       q.LanesKey(),
		"RingKey":        q.RingKey(),
		"LeasedKey":      q.LeasedKey(),
		"LimitedKey":     q.LimitedKey(),
		"BucketsKey":     q.BucketsKey(),
		"ActiveKey":      q.ActiveKey(),
		"JobsKey":        q.JobsKey(),
		"BodiesKey":      q.BodiesKey(),
		"NotesKey":       q.NotesKey(),
		"UniqueKey":      q.UniqueKey(),
		"CancelledKey":   q.CancelledKey(),
		"JobsDueKey":     q.JobsDueKey(),
		"BuriedKey":      q.BuriedKey(),
		"WorkersKey":     q.WorkersKey(),
		"WakeKey":        q.WakeKey(),
		"CallsKey":       q.CallsKey("p"),
		"ResultKey":      q.ResultKey("j"),
		"SchedulesKey":   q.SchedulesKey(),
		"OccurrencesKey": q.OccurrencesKey(),
		"WaitingKey":     q.WaitingKey(),
		"ChildrenKey":    q.ChildrenKey("j"),
		"OutboxKey":      q.OutboxKey(),
	}
}

// requireOneTag: the key has one hash tag, which is the tag that it is to have.
func requireOneTag(t testing.TB, key, tag string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(key, "{"), key)
	require.Equal(t, 1, strings.Count(key, "}"), key)
	require.Contains(t, key, "{"+tag+"}")
	require.Equal(t, tier.Slot(tag), tier.Slot(key), key)
}

// builders are the exported functions and constants of keys.go that make keys.
func builders(t testing.TB) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					names = append(names, v.Names[0].Name)
				}
			}
		}
	}
	keys := names[:0]
	for _, n := range names {
		if ast.IsExported(n) && strings.HasSuffix(n, "Key") {
			keys = append(keys, n)
		}
	}
	require.NotEmpty(t, keys)
	return keys
}

// TestKeys: each builder makes a key of one hash tag, all of a scope's keys one slot, no two the same, and none that
// could be another's with other names.
func TestKeys(t *testing.T) {
	a := tier.Address{Scope: "shop", Stream: "orders"}
	keys := addressKeys(a)
	maps.Copy(keys, queueKeys("shop"))
	for _, name := range builders(t) {
		switch name {
		case "VersionKey", "NodesKey", "TopologiesKey":
			requireOneTag(t, map[string]string{"VersionKey": tier.VersionKey, "NodesKey": tier.NodesKey, "TopologiesKey": tier.TopologiesKey}[name], "emq")
		default:
			require.Contains(t, keys, name, "a builder without a test")
			requireOneTag(t, keys[name], "shop")
		}
	}
	// Names have no colon, so that nothing that a user names can be another key (B89).
	odd := tier.Address{Scope: "shop", Stream: "dead"}
	seen := map[string]string{}
	for _, a := range []tier.Address{a, odd, {Scope: "shop", Stream: "scope"}, {Scope: "stream", Stream: "shop"}} {
		for name, key := range addressKeys(a) {
			if name == "ScopeKey" || name == "AtRestKey" || name == "StateKey" || name == "ProjectionsKey" || name == "SweeperKey" { // of the scope
				continue
			}
			require.NotContains(t, seen, key)
			seen[key] = name
		}
	}
	for _, q := range []tier.Queue{"shop", "stream"} {
		for name, key := range queueKeys(q) {
			require.NotContains(t, seen, key)
			seen[key] = name
		}
	}
}

// TestKeysAreDocumented: KEYS.md has a row for each builder, with the key that it makes, and none for what is not built.
func TestKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("KEYS.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(\\w+)` \\| ([A-Z]+) \\|(.*)\\|(.*)\\|(.*)\\|$")
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[2]] = m[1]
		require.Contains(t, []string{"STRING", "HASH", "STREAM", "ZSET", "LIST", "ANY"}, m[3])
		for _, cell := range m[4:] { // members, lifetime, writers
			require.NotEmpty(t, strings.TrimSpace(cell), m[1])
		}
	}
	a := tier.Address{Scope: "{s}", Stream: "<n>"}
	want := map[string]string{
		"VersionKey": tier.VersionKey, "NodesKey": tier.NodesKey, "TopologiesKey": tier.TopologiesKey, "ScopeKey": tier.ScopeKey("s"),
		"LogKey": "emq:" + a.Scope + ":stream:" + a.Stream,
	}
	want["AtRestKey"] = tier.AtRestKey("s")
	want["StateKey"] = tier.StateKey("s", "<name>")
	want["ProjectionsKey"] = tier.ProjectionsKey("s")
	want["SweeperKey"] = tier.SweeperKey("s")
	want["ProducerKey"] = want["LogKey"] + ":pid:<producer>"
	want["SeenKey"] = want["LogKey"] + ":seen:<hash>"
	want["NotedKey"] = "emq:{s}:noted:<n>:<hash>"
	want["DoneKey"] = want["LogKey"] + ":done:<group>:<hash>"
	want["IndexKey"] = want["LogKey"] + ":key:<key>"
	want["SnapshotKey"] = want["LogKey"] + ":snap:<key>"
	want["FoldKey"] = want["LogKey"] + ":fold:<projection>"
	want["GroupKey"] = want["LogKey"] + ":g:<group>"
	want["OwnersKey"] = want["LogKey"] + ":g:<group>:owners"
	want["RetryKey"] = want["LogKey"] + ":g:<group>:retry"
	want["OpenKey"] = want["LogKey"] + ":g:<group>:open"
	want["CursorsKey"] = want["LogKey"] + ":cursors"
	want["DeadKey"] = want["LogKey"] + ":dead:<group>"
	want["RetentionKey"] = want["LogKey"] + ":retention"
	want["ArchivedKey"] = want["LogKey"] + ":archived"
	want["RestoreKey"] = want["LogKey"] + ":restore"
	want["MembersKey"] = want["LogKey"] + ":members:<group>"
	for name, key := range queueKeys("s") {
		want[name] = key
	}
	for name, last := range map[string]string{"LaneKey": "<lane>", "CallsKey": "<producer>", "ResultKey": "<job>", "ChildrenKey": "<job>"} {
		want[name] = want[name][:len(want[name])-1] + last
	}
	require.Equal(t, want, documented)
	require.ElementsMatch(t, builders(t), keysOf(documented))
	built := addressKeys(tier.Address{Scope: "s", Stream: "<n>"})
	for name, key := range built {
		pattern := strings.NewReplacer("<producer>", "p", "<key>", "k", "<hash>", "8254c329a92850f6d539dd376f4816ee", "<group>", "g", "<projection>", "p.1", "<name>", "total").Replace(documented[name])
		require.Equal(t, pattern, key)
	}
}

func keysOf[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// TestSlot: the slots of the test vectors, and the rule of hash tags.
func TestSlot(t *testing.T) {
	text, err := os.ReadFile("testdata/slots.json")
	require.NoError(t, err)
	var vectors map[string]int
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.NotEmpty(t, vectors)
	for key, slot := range vectors {
		require.Equal(t, slot, tier.Slot(key), key)
		require.Equal(t, slot, tier.Slot("x{"+key+"}y{z}"), key)
	}
}

// TestSlotIsTheServers: a cluster agrees, also where braces stand oddly.
func TestSlotIsTheServers(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.ValkeyCluster, tiertest.RedisCluster} {
		f := setUp(t, tiertest.Shared(t, kind))
		keys := []string{"", "a", "{", "}", "{}", "a{}b", "a{}{b}", "a{{b}c", "a{b", "a}b{c}", "{a}{b}", "{a", "\x00", "\xff{\xfe}"}
		for _, key := range append(keys, addressKeys(tier.Address{Scope: "shop", Stream: "orders"})["LogKey"], tier.NodesKey) {
			want, err := f.raw.Do(f.ctx, f.raw.B().Arbitrary("CLUSTER", "KEYSLOT").Args(key).Build()).AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, want, tier.Slot(key), "%q", key)
		}
	}
}

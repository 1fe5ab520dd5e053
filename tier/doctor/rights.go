package doctor

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

var (
	//go:embed lua/rights.lua
	rightsSource string
	rightsScript = tier.NewScript("rights", rightsSource)
)

// need is a command on a key that a role sends, or a script of it.
type need struct {
	command string
	words   func(key string) []string
	key     string // of keysOf
}

func on(key, command string, args ...string) need {
	return need{command, func(k string) []string { return append([]string{command, k}, args...) }, key}
}

// sub is a command with a subcommand before the key.
func sub(key, command, second string, args ...string) need {
	return need{command + " " + second, func(k string) []string { return append([]string{command, second, k}, args...) }, key}
}

// runs is a script on a key, by its digest and, where the server does not know it, by its source.
func runs(keys ...string) (needs []need) {
	for _, key := range keys {
		for _, command := range []string{"EVALSHA", "EVAL"} {
			needs = append(needs, need{command, func(k string) []string { return []string{command, "x", "1", k} }, key})
		}
	}
	return needs
}

var clock = need{command: "TIME", words: func(string) []string { return []string{"TIME"} }}

// roles are what each role needs in a scope, command by key: docs/security.md says the same without telling which command is
// for which key. A test compares them.
var roles = map[string][]need{
	"writer": append(
		runs("nodes", "scope", "log", "pid", "seen"), clock,
		on("version", "GET"), on("nodes", "HGET", "f"), on("nodes", "HSET", "f", "v"), on("nodes", "HEXISTS", "f"),
		on("scope", "HGET", "f"), on("scope", "HMGET", "f"), on("scope", "HSET", "f", "v"), on("scope", "HSETNX", "f", "v"),
		on("log", "XADD", "*", "f", "v"), on("log", "XDEL", "0-1"), on("log", "XSETID", "0-1"), sub("log", "XINFO", "STREAM"),
		on("log", "XLEN"), on("log", "EXISTS"), on("log", "XREVRANGE", "+", "-"), on("pid", "GET"), on("pid", "SET", "v"),
		on("seen", "GET"), on("seen", "SET", "v"),
	),
	"reader": append(
		runs("log"),
		on("version", "GET"), on("retention", "HMGET", "f"), on("scope", "HMGET", "f"), on("scope", "HGET", "f"), on("log", "XRANGE", "-", "+"),
		on("log", "XREVRANGE", "+", "-"), sub("log", "XINFO", "STREAM"), on("log", "EXISTS"),
		need{"XREAD", func(k string) []string { return []string{"XREAD", "STREAMS", k, "0"} }, "log"},
	),
	"consumer": append(
		runs("scope", "log", "group", "owners", "retry", "open", "dead"), clock,
		on("version", "GET"), on("scope", "HGET", "f"), on("scope", "HMGET", "f"), on("log", "EXISTS"),
		need{"XREADGROUP", func(k string) []string { return []string{"XREADGROUP", "GROUP", "g", "c", "STREAMS", k, ">"} }, "log"},
		sub("log", "XGROUP", "CREATE", "g", "0"), sub("log", "XGROUP", "SETID", "g", "0"), sub("log", "XGROUP", "DELCONSUMER", "g", "c"), sub("log", "XINFO", "GROUPS"),
		sub("log", "XINFO", "STREAM"), sub("log", "XINFO", "CONSUMERS", "g"), on("log", "XPENDING", "g"), on("log", "XCLAIM", "g", "c", "0", "0-1"),
		on("log", "XACK", "g", "0-1"), on("log", "XRANGE", "-", "+"), on("group", "HMGET", "f"), on("group", "HGET", "f"),
		on("group", "HSET", "f", "v"), on("group", "HSETNX", "f", "v"), on("group", "DEL"), on("owners", "HGET", "f"),
		on("owners", "HSET", "f", "v"), on("owners", "HDEL", "f"), on("owners", "HEXISTS", "f"), on("owners", "HINCRBY", "f", "1"),
		on("owners", "HGETALL"), on("owners", "DEL"), on("retry", "ZADD", "0", "m"), on("retry", "ZREM", "m"), on("retry", "ZRANGE", "0", "0"),
		on("retry", "ZRANGEBYSCORE", "0", "0"), on("retry", "ZSCAN", "0"), on("retry", "DEL"), on("open", "HGET", "f"), on("open", "HMGET", "f"), on("open", "HSET", "f", "v"), on("open", "HDEL", "f"),
		on("open", "DEL"), on("dead", "XADD", "*", "f", "v"), on("dead", "TYPE"), on("cursors", "HEXISTS", "f"),
	),
	"owner": append(
		runs("scope", "log", "cursors", "retry", "open", "dead"), clock,
		on("version", "GET"), on("scope", "HGET", "f"), on("scope", "HMGET", "f"), on("log", "EXISTS"), on("group", "HEXISTS", "f"),
		need{"XREAD", func(k string) []string { return []string{"XREAD", "STREAMS", k, "0"} }, "log"},
		sub("log", "XINFO", "STREAM"), on("log", "XRANGE", "-", "+"), on("cursors", "HMGET", "f"), on("cursors", "HSET", "f", "v"), on("cursors", "HDEL", "f"), on("retention", "HMGET", "f"),
		on("retry", "ZADD", "0", "m"), on("retry", "ZREM", "m"), on("retry", "ZRANGEBYSCORE", "0", "0"), on("retry", "ZSCAN", "0"), on("retry", "DEL"),
		on("open", "HGET", "f"), on("open", "HMGET", "f"), on("open", "HSET", "f", "v"), on("open", "HDEL", "f"), on("open", "DEL"), on("dead", "XADD", "*", "f", "v"), on("dead", "TYPE"),
	),
	"operator": append(
		runs("nodes", "scope", "log", "group", "dead"), clock,
		on("version", "GET"), on("nodes", "HGET", "f"), on("nodes", "HSCAN", "0"), on("scope", "HGET", "f"), on("scope", "HMGET", "f"),
		on("scope", "HSET", "f", "v"), on("scope", "HDEL", "f"), on("scope", "HSCAN", "0"), on("scope", "HGETALL"), on("scope", "TYPE"), on("log", "EXISTS"), on("log", "TYPE"), on("log", "XLEN"),
		on("log", "XRANGE", "-", "+"), on("log", "XPENDING", "g"), on("log", "XSETID", "0-1"), on("log", "UNLINK"),
		sub("log", "XGROUP", "CREATE", "g", "0"), sub("log", "XGROUP", "SETID", "g", "0"), sub("log", "XGROUP", "DESTROY", "g"), sub("log", "XINFO", "STREAM"),
		sub("log", "XINFO", "GROUPS"), sub("log", "XINFO", "CONSUMERS", "g"), on("group", "HGET", "f"), on("group", "HMGET", "f"),
		on("cursors", "HKEYS"), on("cursors", "HGETALL"), on("cursors", "HEXISTS", "f"), on("cursors", "HMGET", "f"), on("cursors", "HSET", "f", "v"), on("cursors", "HSETNX", "f", "v"), on("cursors", "HDEL", "f"),
		on("group", "HSET", "f", "v"), on("group", "HSETNX", "f", "v"), on("group", "HDEL", "f"), on("group", "DEL"), on("group", "PEXPIRE", "1"), on("group", "HSCAN", "0"),
		on("group", "UNLINK"), on("owners", "HGETALL"), on("owners", "HMGET", "f"), on("owners", "DEL"), on("owners", "UNLINK"), on("retry", "ZCARD"), on("retry", "ZADD", "0", "m"), on("retry", "ZSCORE", "m"), on("dead", "XDEL", "0-1"), on("open", "HSET", "f", "v"),
		on("retry", "ZRANGE", "0", "0"), on("retry", "DEL"), on("open", "HMGET", "f"), on("open", "HSCAN", "0"), on("open", "DEL"), on("dead", "XLEN"), on("dead", "XRANGE", "-", "+"), on("dead", "UNLINK"),
		on("pid", "UNLINK"), on("seen", "UNLINK"), on("done", "UNLINK"), on("retention", "HGET", "f"), on("retention", "HSET", "f", "v"), on("retention", "HDEL", "f"), on("archived", "DEL"), need{command: "SCAN", words: func(string) []string { return []string{"SCAN", "0"} }},
	),
	"sweeper": append(
		runs("log", "sweeper", "scope"), clock,
		on("version", "GET"), on("scope", "HGET", "f"), on("scope", "HMGET", "f"), on("scope", "HSCAN", "0"), on("sweeper", "HMGET", "f"), on("sweeper", "HSET", "f", "v"),
		on("log", "EXISTS"), on("log", "XTRIM", "MAXLEN", "0"), on("log", "XRANGE", "-", "+"), on("log", "XREVRANGE", "+", "-"), on("log", "XPENDING", "g"), on("log", "XLEN"),
		sub("log", "XINFO", "STREAM"), sub("log", "XINFO", "GROUPS"), on("cursors", "HGETALL"), on("retention", "HGET", "f"), on("retention", "HMGET", "f"), on("retention", "HGETALL"),
		on("retention", "HINCRBY", "f", "1"), on("retry", "ZCARD"), on("retry", "ZRANGE", "0", "0"), on("retry", "ZSCORE", "m"),
		on("retention", "HSET", "f", "v"), on("retention", "HDEL", "f"), on("group", "HGET", "f"), on("group", "HSET", "f", "v"), on("group", "PEXPIRE", "1"), on("group", "DEL"), on("owners", "HGETALL"),
		on("owners", "DEL"), on("retry", "DEL"), on("open", "DEL"), sub("log", "XGROUP", "DESTROY", "g"), sub("log", "XINFO", "CONSUMERS", "g"),
		on("scope", "HSET", "f", "v"), on("log", "XSETID", "0-1"), on("archived", "SET", "v"),
	),
}

// Roles are the names of the roles of streams, in the order in which a person reads them.
func Roles() []string {
	return []string{"writer", "reader", "consumer", "owner", "operator", "sweeper"}
}

// As is the role that the user is to have. Stream and Group are what it is to have it for; empty: what of the scope it has
// most rights on. The zero value: none.
type As struct{ Role, Stream, Group string }

// place is a stream with a group, of which a role uses the keys.
type place struct {
	tier.Address
	group string
}

// maxPlaces is on how many streams and groups of a scope rights are tested: a millisecond of the server's time for each.
const maxPlaces = 100

// anyName stands for streams, groups and producers that do not exist yet.
const anyName = "x"

// places are where the rights of a scope are tested.
func places(s *Scope, as As) (list []place) {
	streams := append(slices.Clone(s.Streams), Stream{Info: stream.Info{Address: tier.Address{Stream: anyName}}})
	if as.Stream != "" {
		streams = slices.DeleteFunc(streams, func(st Stream) bool { return st.Address.Stream != as.Stream })
		if len(streams) == 0 { // or the user may not list it
			streams = []Stream{{Info: stream.Info{Address: tier.Address{Stream: as.Stream}}}}
		}
	}
	for _, st := range streams {
		groups := []string{as.Group}
		if as.Group == "" {
			groups = groups[:0]
			for _, g := range st.Groups {
				groups = append(groups, g.Name)
			}
			groups = append(groups, anyName)
		}
		for _, g := range groups {
			if tier.CheckName("group", g) == nil && len(list) < maxPlaces { // another program's has no keys of ours
				list = append(list, place{tier.Address{Scope: s.Name, Stream: st.Address.Stream}, g})
			}
		}
	}
	return list
}

// keys are those of the place as the roles use them.
func (p place) keys() map[string]string {
	keys := queueKeys(tier.Queue(p.Scope))
	maps.Copy(keys, map[string]string{
		"version": tier.VersionKey, "nodes": tier.NodesKey, "scope": tier.ScopeKey(p.Scope), "at-rest": tier.AtRestKey(p.Scope), "log": p.LogKey(), "pid": p.ProducerKey(anyName),
		"seen": p.SeenKey(anyName), "done": p.DoneKey(p.group, anyName),
		"group": p.GroupKey(p.group), "owners": p.OwnersKey(p.group), "retry": p.RetryKey(p.group), "open": p.OpenKey(p.group), "dead": p.DeadKey(p.group),
		"cursors": p.CursorsKey(), "retention": p.RetentionKey(), "archived": p.ArchivedKey(), "sweeper": tier.SweeperKey(p.Scope),
	})
	return keys
}

// lacking asks what the user lacks of each role, where it has most of it.
func lacking(ctx context.Context, client *tier.Client, s *Scope, as As) ([]Lack, error) {
	wanted := Roles()
	if as.Role != "" {
		wanted = []string{as.Role}
	}
	least := map[string][]string{}
	for i, p := range places(s, as) {
		for _, role := range wanted {
			needs := needsOf(role)
			if client.Server().Cluster {
				needs = append(slices.Clone(needs), runs("at-rest")...)
			}
			lacks, err := p.lacking(ctx, client, needs)
			if errors.Is(err, tier.ErrPermission) && as.Role != "" {
				lacks, err = []string{"the right to run a script on any of its keys, with EVALSHA"}, nil
			}
			if err != nil {
				return nil, err
			}
			if i == 0 || len(lacks) < len(least[role]) {
				least[role] = lacks
			}
		}
	}
	var all []Lack
	for _, role := range wanted {
		for _, what := range least[role] {
			all = append(all, Lack{Scope: s.Name, Role: role, What: what, Meant: as.Role != ""})
		}
	}
	return all, nil
}

// lacking asks for each need whether it is allowed, and whether its command is: on the key of the script that asks, which the
// user may use for everything, or the script would not run.
func (p place) lacking(ctx context.Context, client *tier.Client, needs []need) ([]string, error) {
	keys := p.keys()
	var err error
	for _, by := range []string{"scope", "log", "pid", "seen", "group", "owners", "cursors", "dead", "nodes", "jobs"} {
		var args []string
		for _, n := range needs {
			for _, key := range []string{keys[n.key], keys[by]} {
				words := n.words(key)
				if n.key == "channel" && key != keys[n.key] { // a channel would be another right
					words = words[:1]
				}
				args = append(append(args, strconv.Itoa(len(words))), words...)
			}
		}
		var m rueidis.RedisMessage
		m, err = client.Run(ctx, tier.Call{Script: rightsScript, Keys: []string{keys[by]}, Args: args})
		if errors.Is(err, tier.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, err
		}
		answers, err := m.AsStrSlice()
		if err != nil {
			return nil, tier.Wrap("rights", keys[by], err)
		}
		return denied(needs, answers, keys), nil
	}
	return nil, err
}

// denied says what is missing: a command, a key on which nothing is allowed, or the two together. Answers are two for each
// need.
func denied(needs []need, answers []string, keys map[string]string) (lacks []string) {
	open := map[string]bool{"": true} // keys on which something is allowed; "" is that of a command without one
	for i, n := range needs {
		open[n.key] = open[n.key] || answers[2*i] == "1"
	}
	add := func(what string) {
		if !slices.Contains(lacks, what) {
			lacks = append(lacks, what)
		}
	}
	for i, n := range needs {
		allowed, known := answers[2*i] == "1", answers[2*i+1] == "1"
		switch {
		case allowed:
		case !known:
			add("the command " + n.command)
		case open[n.key]:
			add(n.command + " on " + keys[n.key])
		case n.key == "channel":
			add("the channel " + keys[n.key])
		default:
			add("the key " + keys[n.key])
		}
	}
	return lacks
}

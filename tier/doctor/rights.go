package doctor

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"

	"github.com/echomq/pipeline/tier"
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
		on("version", "GET"), on("scope", "HMGET", "f"), on("scope", "HGET", "f"), on("log", "XRANGE", "-", "+"),
		on("log", "XREVRANGE", "+", "-"), sub("log", "XINFO", "STREAM"), on("log", "EXISTS"),
		need{"XREAD", func(k string) []string { return []string{"XREAD", "STREAMS", k, "0"} }, "log"},
	),
	"consumer": append(
		runs("scope", "log", "group", "owners", "dead"), clock,
		on("version", "GET"), on("scope", "HGET", "f"), on("scope", "HMGET", "f"), on("log", "EXISTS"),
		need{"XREADGROUP", func(k string) []string { return []string{"XREADGROUP", "GROUP", "g", "c", "STREAMS", k, ">"} }, "log"},
		sub("log", "XGROUP", "CREATE", "g", "0"), sub("log", "XGROUP", "DELCONSUMER", "g", "c"), sub("log", "XINFO", "GROUPS"),
		sub("log", "XINFO", "STREAM"), sub("log", "XINFO", "CONSUMERS", "g"), on("log", "XPENDING", "g"), on("log", "XCLAIM", "g", "c", "0", "0-1"),
		on("log", "XACK", "g", "0-1"), on("log", "XRANGE", "-", "+"), on("group", "HMGET", "f"), on("group", "HGET", "f"),
		on("group", "HSET", "f", "v"), on("group", "HSETNX", "f", "v"), on("group", "DEL"), on("owners", "HGET", "f"),
		on("owners", "HSET", "f", "v"), on("owners", "HDEL", "f"), on("owners", "HEXISTS", "f"), on("owners", "HINCRBY", "f", "1"),
		on("owners", "HGETALL"), on("owners", "DEL"), on("dead", "XADD", "*", "f", "v"),
	),
}

// roleNames are in the order in which a person reads them.
var roleNames = []string{"writer", "reader", "consumer"}

// keysOf are keys as the roles use them, of names that stand for any.
func keysOf(scope string) map[string]string {
	a := tier.Address{Scope: scope, Stream: "x"}
	return map[string]string{
		"version": tier.VersionKey, "nodes": tier.NodesKey, "scope": tier.ScopeKey(scope), "log": a.LogKey(), "pid": a.ProducerKey("x"),
		"seen":  a.SeenKey("x"),
		"group": a.GroupKey("x"), "owners": a.OwnersKey("x"), "dead": a.DeadKey("x"),
	}
}

// lacking asks what the roles lack in a scope.
func lacking(ctx context.Context, client *tier.Client, scope string) ([]Lack, error) {
	keys := keysOf(scope)
	var args []string
	for _, role := range roleNames {
		for _, n := range roles[role] {
			words := n.words(keys[n.key])
			args = append(append(args, strconv.Itoa(len(words))), words...)
		}
	}
	var answers []string
	var err error
	for _, by := range []string{"scope", "log", "pid", "seen", "group", "owners", "dead"} { // by one that the user may name
		m, e := client.Run(ctx, tier.Call{Script: rightsScript, Keys: []string{keys[by]}, Args: args})
		if err = e; e == nil {
			answers, err = m.AsStrSlice()
		}
		if !errors.Is(err, tier.ErrPermission) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var lacks []Lack
	may := allowed(answers)
	for _, role := range roleNames {
		n := len(roles[role])
		for _, what := range may.lacks(roles[role], answers[:n], keys) {
			lacks = append(lacks, Lack{Scope: scope, Role: role, What: what})
		}
		answers = answers[n:]
	}
	return lacks, nil
}

// permitted are commands that are allowed on some key, and keys on which some command is allowed.
type permitted struct{ commands, keys map[string]bool }

func allowed(answers []string) permitted {
	p := permitted{map[string]bool{}, map[string]bool{"": true}} // a command without a key
	for _, role := range roleNames {
		for _, n := range roles[role] {
			if answers[0] == "1" {
				p.commands[n.command], p.keys[n.key] = true, true
			}
			answers = answers[1:]
		}
	}
	return p
}

// lacks says what is denied: a command that is allowed on no key, a key on which nothing is allowed, or the two together.
func (p permitted) lacks(needs []need, answers []string, keys map[string]string) (lacks []string) {
	add := func(what string) {
		if !slices.Contains(lacks, what) {
			lacks = append(lacks, what)
		}
	}
	for i, n := range needs {
		if answers[i] == "1" {
			continue
		}
		switch {
		case p.commands[n.command] && p.keys[n.key]:
			add(n.command + " on " + keys[n.key])
		case p.keys[n.key]:
			add("the command " + n.command)
		case p.commands[n.command]:
			add("the key " + keys[n.key])
		default:
			add("the command " + n.command)
			add("the key " + keys[n.key])
		}
	}
	return lacks
}

package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

func (e *examination) nodes(ctx context.Context, nodes []tier.Node) {
	for _, n := range nodes {
		e.facts.Nodes = append(e.facts.Nodes, e.node(ctx, n))
	}
}

// commands are what the scripts need, the rarer ones: a server may have renamed them away.
var commands = []string{"evalsha", "xadd", "xreadgroup", "xclaim", "xsetid", "xinfo", "xgroup", "unlink"}

func (e *examination) node(ctx context.Context, n tier.Node) Node {
	facts := Node{Addr: n.Addr}
	ask := func(what string, words ...string) (rueidis.RedisMessage, bool) {
		m, err := n.Do(ctx, words...)
		if errors.Is(err, tier.ErrPermission) || errors.Is(err, tier.ErrServer) { // such as of a command that was renamed away
			e.unexamined(what, n.Addr, err)
		} else if class := tier.Classify(err); class != nil && class.Reaction == tier.BackOff {
			facts.Silent = err.Error()
		}
		return m, err == nil
	}
	begun := e.now()
	if m, ok := ask("the clock", "TIME"); ok {
		if t, err := m.AsStrSlice(); err == nil && len(t) == 2 {
			facts.Blur = e.now().Sub(begun)/2 + time.Millisecond
			facts.Skew = time.UnixMicro(number(t[0])*1e6 + number(t[1])).Sub(begun.Add(facts.Blur))
		}
	}
	if facts.Silent != "" {
		return facts
	}
	if m, ok := ask("memory, persistence and role", "INFO"); ok {
		facts.Info = lines(m)
	}
	if m, ok := ask("appendfsync and save", "CONFIG", "GET", "appendfsync", "save"); ok {
		facts.Config, _ = m.AsStrMap()
	}
	if facts.Info["cluster_enabled"] == "1" {
		if m, ok := ask("the cluster", "CLUSTER", "INFO"); ok {
			facts.Cluster = lines(m)
		}
		if m, ok := ask("the nodes of the cluster", "CLUSTER", "NODES"); ok {
			text, _ := m.ToString()
			facts.Failed = failedIn(text)
		}
	}
	if m, ok := ask("capabilities", append([]string{"COMMAND", "INFO"}, commands...)...); ok {
		rows, _ := m.ToArray()
		for i := range rows {
			if rows[i].IsNil() && i < len(commands) {
				facts.Absent = append(facts.Absent, strings.ToUpper(commands[i]))
			}
		}
	}
	return facts
}

// failedIn are the nodes that CLUSTER NODES calls failed: id, address@bus, flags, ... on each line.
func failedIn(text string) (failed []string) {
	for line := range strings.Lines(text) {
		if row := strings.Fields(line); len(row) > 2 && slices.Contains(strings.Split(row[2], ","), "fail") {
			addr, _, _ := strings.Cut(row[1], "@")
			failed = append(failed, addr)
		}
	}
	return failed
}

// lines are "name:value" lines, as of INFO.
func lines(m rueidis.RedisMessage) map[string]string {
	text, _ := m.ToString()
	text = strings.TrimPrefix(text, "txt:") // what RESP3 says of its form
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

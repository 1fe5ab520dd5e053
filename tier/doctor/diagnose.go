package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Diagnose makes findings of facts, the worst first. It asks nobody.
func Diagnose(f Facts, m Marks) []Finding {
	m.setDefaults()
	d := &diagnosis{marks: m, blamed: map[string]bool{}}
	d.wire(f.Wire)
	for i := range f.Nodes {
		d.node(&f.Nodes[i], len(f.Nodes) > 1)
	}
	d.failed(f.Nodes)
	d.clocks(f.Nodes)
	d.registry(&f.Registry)
	for i := range f.Scopes {
		d.scope(&f.Scopes[i])
	}
	d.rights(presentOnly(f.Rights, f.Nodes))
	for _, u := range f.Unexamined {
		severity := Note
		if u.All {
			severity = Warning
		}
		d.add(severity, "not-examined", u.Where, u.What+" could not be examined: "+u.Why, u.Do)
	}
	return sorted(d.list)
}

type diagnosis struct {
	marks  Marks
	list   []Finding
	blamed map[string]bool // scopes that findings of the registry are about: Check says the same of them
}

func (d *diagnosis) add(s Severity, code, where, what, do string) {
	d.list = append(d.list, Finding{s, code, where, what, do})
}

func quoted(s string) string { return fmt.Sprintf("%.64q", s) }

// set is how a setting is changed for good.
func set(name, value string) string {
	return "CONFIG SET " + name + " " + value + ", then CONFIG REWRITE, or write it into the configuration file: a restart forgets it otherwise"
}

func (d *diagnosis) wire(found string) {
	if found != "" && found != tier.Wire {
		d.add(Note, "wire-version", tier.VersionKey, "it says "+quoted(found)+", this program speaks "+tier.Wire+", which is the same but for details",
			"use programs of one version once the upgrade is done")
	}
}

func (d *diagnosis) node(n *Node, cluster bool) {
	if n.Silent != "" {
		d.add(Error, "unreachable", n.Addr, "the node does not answer: "+n.Silent, "start it, or see that it can be reached from here")
		return
	}
	if len(n.Absent) > 0 {
		d.add(Error, "capabilities", n.Addr, "the server lacks "+strings.Join(n.Absent, ", "), "take rename-command out of its configuration, or run Valkey 8, or Redis 7.0 or later")
	}
	if state := n.Cluster["cluster_state"]; state != "" && state != "ok" {
		d.add(Error, "cluster", n.Addr, "the cluster is not ok: "+state, "look at CLUSTER NODES; every slot needs a primary that runs")
	}
	if n.Info == nil {
		return
	}
	d.role(n, cluster)
	d.memory(n)
	d.persistence(n)
}

// failed are nodes that others hold for failed, once each; of those that were asked and are silent it is known.
func (d *diagnosis) failed(nodes []Node) {
	told := map[string]bool{}
	for _, n := range nodes {
		told[n.Addr] = n.Silent != ""
	}
	for _, n := range nodes {
		for _, addr := range n.Failed {
			if !told[addr] {
				d.add(Warning, "unreachable", addr, "the cluster holds the node for failed", "start it, or take it out with CLUSTER FORGET: until then nobody may stand in for another")
			}
			told[addr] = true
		}
	}
}

func (d *diagnosis) role(n *Node, cluster bool) {
	if n.Info["role"] != "slave" {
		if cluster && n.Info["connected_slaves"] == "0" {
			d.add(Note, "no-replica", n.Addr, "no replica follows this primary: nobody can take over when it fails", "give it a replica, with CLUSTER REPLICATE there")
		}
		return
	}
	if !cluster && n.Info["cluster_enabled"] != "1" {
		d.add(Error, "read-only", n.Addr, "the server is a replica: nothing can be written", "connect to its primary, "+n.Info["master_host"]+":"+n.Info["master_port"])
	}
	if n.Info["master_link_status"] == "down" {
		d.add(Warning, "replica-link", n.Addr, "the replica has lost its primary", "see that the primary runs, and its log")
	}
}

func (d *diagnosis) memory(n *Node) {
	switch policy := n.Info["maxmemory_policy"]; {
	case strings.HasPrefix(policy, "allkeys"):
		d.add(Error, "eviction", n.Addr, "maxmemory-policy is "+policy+": a full server drops whole streams", set("maxmemory-policy", "noeviction"))
	case policy != "" && policy != "noeviction":
		d.add(Warning, "eviction", n.Addr, "maxmemory-policy is "+policy+": a full server drops receipts, and repeats may be written twice", set("maxmemory-policy", "noeviction"))
	}
	used, limit, name := number(n.Info["used_memory"]), number(n.Info["maxmemory"]), "maxmemory"
	if limit == 0 {
		limit, name = number(n.Info["total_system_memory"]), "the machine's memory; maxmemory is not set"
	}
	switch {
	case limit == 0 || used < limit/100*85:
	case used >= limit:
		d.add(Error, "memory", n.Addr, fmt.Sprintf("the server is full: %s of %s (%s)", size(used), size(limit), name), "trim or empty streams, or raise maxmemory: nothing can be appended")
	default:
		d.add(Warning, "memory", n.Addr, fmt.Sprintf("the server is nearly full: %s of %s (%s)", size(used), size(limit), name), "trim streams, or raise maxmemory, before appends are refused")
	}
}

func (d *diagnosis) persistence(n *Node) {
	appends := n.Info["aof_enabled"] == "1"
	saves, known := n.Config["save"]
	switch {
	case appends:
	case known && saves == "":
		d.add(Warning, "persistence", n.Addr, "no append-only file and no snapshots: a restart loses everything", set("appendonly", "yes"))
	default:
		d.add(Warning, "persistence", n.Addr, "no append-only file: a crash loses what was written since the last snapshot", set("appendonly", "yes"))
	}
	if appends && n.Config["appendfsync"] == "no" {
		d.add(Warning, "fsync", n.Addr, "appendfsync is no: a power failure loses what the system has not written yet, half a minute or so", set("appendfsync", "everysec"))
	}
	for _, field := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if v := n.Info[field]; v != "" && v != "ok" {
			d.add(Error, "disk", n.Addr, field+" is "+v+": the server cannot write to its disk", "free disk space, see its log; it refuses writes meanwhile")
		}
	}
}

// clocks compares the nodes with the host, and with each other. What may come from the network is taken off.
func (d *diagnosis) clocks(nodes []Node) {
	known := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Blur == 0 })
	if len(known) == 0 {
		return
	}
	for _, n := range known {
		switch {
		case -n.Skew-n.Blur > time.Minute:
			d.add(Error, "clock", n.Addr, "this host's clock is "+around(-n.Skew)+" ahead of the server's: processes that mint ids are refused", "set the clocks right, with NTP")
		case n.Skew.Abs()-n.Blur > d.marks.Skew:
			d.add(Warning, "clock", n.Addr, "this host's clock and the server's differ by "+around(n.Skew.Abs()), "set the clocks right, with NTP: places named by time are off by that")
		}
	}
	bySkew := func(a, b Node) int { return cmp.Compare(a.Skew, b.Skew) }
	low, high := slices.MinFunc(known, bySkew), slices.MaxFunc(known, bySkew)
	if apart := high.Skew - low.Skew; apart-high.Blur-low.Blur > d.marks.Skew {
		d.add(Warning, "clock", high.Addr, "its clock is "+around(apart)+" ahead of that of "+low.Addr, "set the clocks right, with NTP: after a failover ids would run ahead")
	}
}

// nearly is from how many of 512 numbers a registry is nearly full.
const nearly = tier.MaxScopes * 9 / 10

func (d *diagnosis) registry(r *Registry) {
	for _, kind := range []struct {
		n          int
		what, full string
	}{
		{len(r.Scopes), "scopes", "put more streams into one scope: no further scope can be made"},
		{r.Leased, "processes that mint", "stop some of them: no further one can start"},
	} {
		switch {
		case kind.n >= tier.MaxScopes:
			d.add(Error, "registry-full", tier.NodesKey, fmt.Sprintf("all %d node numbers of %s are taken", tier.MaxScopes, kind.what), kind.full)
		case kind.n >= nearly:
			d.add(Warning, "registry-full", tier.NodesKey, fmt.Sprintf("%d of %d node numbers of %s are taken", kind.n, tier.MaxScopes, kind.what), kind.full+" once all are taken")
		}
	}
	for number, scope := range r.Holders {
		if r.Scopes[scope] != number {
			d.blamed[scope] = true
			d.add(Error, "registry", tier.NodesKey, fmt.Sprintf("number %s belongs to %s, which has %s", number, quoted(scope), cmp.Or(r.Scopes[scope], "none")), "restore "+tier.NodesKey+" from a backup")
		}
	}
	for scope, number := range r.Scopes {
		holder, ok := r.Holders[number]
		d.blamed[scope] = d.blamed[scope] || holder != scope
		if !ok {
			d.add(Error, "registry", tier.NodesKey, fmt.Sprintf("scope %s has number %s, which nobody holds: it may be given to another", scope, quoted(number)), "restore "+tier.NodesKey+" from a backup")
		}
	}
}

// presentOnly leaves out commands that the server does not have: no right to them would help.
func presentOnly(lacks []Lack, nodes []Node) []Lack {
	return slices.DeleteFunc(slices.Clone(lacks), func(l Lack) bool {
		command, ok := strings.CutPrefix(l.What, "the command ")
		command, _, _ = strings.Cut(command, " ")
		return ok && slices.ContainsFunc(nodes, func(n Node) bool { return slices.Contains(n.Absent, command) })
	})
}

func (d *diagnosis) rights(lacks []Lack) {
	type part struct {
		scope, role string
		meant       bool
	}
	what := map[part][]string{}
	var order []part
	for _, l := range lacks {
		p := part{l.Scope, l.Role, l.Meant}
		if what[p] == nil {
			order = append(order, p)
		}
		what[p] = append(what[p], l.What)
	}
	for _, p := range order {
		severity, do := Note, "nothing, if it is not to be one; else grant it with ACL SETUSER, see docs/security.md"
		if p.meant {
			severity, do = Error, "grant it with ACL SETUSER, see docs/security.md"
		}
		d.add(severity, "rights", "scope "+p.scope, "the user cannot be "+p.role+": it lacks "+strings.Join(what[p], ", "), do)
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// size is a number of bytes for a person.
func size(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.of {
			return strconv.FormatFloat(float64(n)/float64(u.of), 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// around is a length of time for a person.
func around(t time.Duration) string {
	switch {
	case t < time.Minute:
		return t.Round(100 * time.Millisecond).String()
	case t < 2*day:
		return t.Round(time.Second).String()
	case t < 2*year:
		return strconv.Itoa(int(t/day)) + " days"
	}
	return strconv.Itoa(int(t/year)) + " years"
}

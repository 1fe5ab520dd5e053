package topology

import (
	"strconv"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/doctor"
	"github.com/echomq/pipeline/topology/stage"
)

// Role is who does a part of a topology, and the least rights that it needs for that.
type Role struct {
	Role string // stage, source, projection, sink, consumer, worker, operator
	Name string // of the stage, the group, the queue; empty: of all
	// Rules are those of ACL SETUSER: keys, then commands. There is no password among them.
	Rules []string
}

// User is what the role's user may be called at the server.
func (r *Role) User(topology string) string {
	if r.Name == "" {
		return topology + "." + r.Role
	}
	return topology + "." + r.Role + "." + r.Name
}

// clusterCommands are what every client of a cluster sends.
var clusterCommands = []string{"+asking", "+cluster|shards", "+cluster|slots"}

// ACL are the roles of a document with their rights; cluster adds what clients of a cluster need.
func (d *Document) ACL(cluster bool) (roles []Role) {
	users := map[string]bool{}
	add := func(role, name string, rights *doctor.Rights) {
		r := Role{Role: role, Name: name}
		for n := 2; users[r.User("")]; n++ { // names have dots of their own
			r.Name = name + "-" + strconv.Itoa(n)
		}
		users[r.User("")] = true
		rules := rights.Rules()
		if cluster {
			rules = append(rules, clusterCommands...)
		}
		r.Rules = rules
		roles = append(roles, r)
	}
	for _, name := range sorted(d.Sources) {
		c, r := d.Sources[name], &doctor.Rights{}
		without := []string{"seen"}
		if c.Watermill != nil { // it may know messages by their UUIDs
			without = nil
		}
		d.each(c.To, func(a tier.Address) { r.Role("writer", a, "", without...) })
		add("source", name, r)
	}
	for _, name := range sorted(d.Stages) {
		c := d.Stages[name]
		add("stage", name, d.stageRights(name, &c))
	}
	for _, name := range sorted(d.Projections) {
		c, r := d.Projections[name], &doctor.Rights{}
		d.each(c.From, func(a tier.Address) {
			r.Role("owner", a, c.Cursor(name))
			r.Key(tier.ProjectionsKey(a.Scope), "hsetnx", "hget")
			r.Key(tier.StateKey(a.Scope, c.Cursor(name)), "hget", "hmget", "hset", "hdel", "srem", "zrem", "del", "type")
		})
		add("projection", name, r)
	}
	for _, name := range sorted(d.Sinks) {
		c, r := d.Sinks[name], &doctor.Rights{}
		d.each(c.From, func(a tier.Address) {
			r.Role("owner", a, name)
			if sinkVerb(&c) == "file" { // how long it is
				r.Key(tier.StateKey(a.Scope, stage.SinkState(name)), "hmget", "hset", "del")
			}
		})
		add("sink", name, r)
	}
	for _, scope := range sorted(d.Scopes) {
		for _, own := range sorted(d.Scopes[scope].Streams) {
			for _, group := range sorted(d.Scopes[scope].Streams[own].Groups) {
				r := &doctor.Rights{}
				d.each(scope+"/"+own, func(a tier.Address) { r.Role("consumer", a, group) })
				add("consumer", scope+"."+own+"."+group, r)
			}
		}
	}
	for _, name := range sorted(d.Queues) {
		r := &doctor.Rights{}
		r.QueueRole("worker", tier.Queue(name))
		if len(d.Queues[name].Schedules) > 0 { // whoever works fires them
			r.QueueRole("scheduler", tier.Queue(name))
		}
		add("worker", name, r)
	}
	add("operator", "", d.operatorRights())
	return roles
}

// each calls f with the places of a stream: itself, and, where its scope has partitions, what matches them all.
func (d *Document) each(address string, f func(tier.Address)) {
	a, err := tier.ParseAddress(address)
	if err != nil {
		return
	}
	f(a)
	if d.Scopes[a.Scope].Partitions > 0 {
		f(tier.Address{Scope: a.Scope + ".*", Stream: a.Stream})
	}
}

// stageRights are those of the owner of a cursor, and of what the stage writes in the same step.
func (d *Document) stageRights(name string, c *stage.Config) *doctor.Rights {
	r := &doctor.Rights{}
	d.each(c.From, func(a tier.Address) {
		r.Role("owner", a, name)
		switch c.Verb() {
		case "dedupe", "throttle", "batch", "window":
			r.Key(tier.StateKey(a.Scope, stage.State(name)), "hgetall", "hset", "hdel", "srem", "zrem", "del", "type")
		case "join":
			r.Key(tier.StateKey(a.Scope, c.Join.State), "hmget")
		}
	})
	for _, out := range outputs(c) {
		d.each(out.address, func(a tier.Address) { // declared as a writer does, appended by the commit
			r.Key(tier.NodesKey, "hget", "hset", "hexists")
			r.Key(tier.ScopeKey(a.Scope), "hset", "hsetnx")
			r.Key(a.LogKey(), "xadd", "xdel", "xlen", "xsetid")
			if d.Scopes[a.Scope].Streams[a.Stream].Keyed {
				r.Key(a.IndexKey("*"), "zadd", "zrange", "type")
			}
			if c.Decide != nil { // by what has happened
				r.Key(a.IndexKey("*"), "zcard")
				r.Key(a.SnapshotKey("*"), "get", "set")
			}
		})
	}
	if c.Job != nil {
		r.QueueRole("enqueuer", tier.Queue(c.Job.Queue))
	}
	return r
}

// operatorRights are those of who applies the document, looks after what it declares, and sweeps.
func (d *Document) operatorRights() *doctor.Rights {
	r := &doctor.Rights{}
	r.Key(tier.TopologiesKey, "hsetnx", "hset", "hget", "hdel", "hscan")
	for _, scope := range sorted(d.Scopes) {
		d.each(scope+"/x", func(a tier.Address) { r.Scope(a.Scope, "operator", "writer", "consumer", "sweeper") })
	}
	for _, name := range sorted(d.Queues) {
		r.QueueRole("queue-operator", tier.Queue(name))
		r.QueueRole("scheduler", tier.Queue(name))
	}
	return r
}

package doctor

import (
	"slices"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// Rights are those of one user, as ACL SETUSER takes them: keys and channels, then commands, each once.
type Rights struct{ keys, commands []string }

// Rules are the rights as the server takes them: "~emq:{shop}:scope", "+xadd".
func (r *Rights) Rules() []string {
	slices.Sort(r.keys)
	slices.Sort(r.commands)
	return append(slices.Compact(r.keys), slices.Compact(r.commands)...)
}

// Key gives the right to a key, and to commands on it.
func (r *Rights) Key(key string, commands ...string) {
	r.keys = append(r.keys, "~"+key)
	for _, c := range commands {
		r.commands = append(r.commands, "+"+c)
	}
}

// Role gives the rights of a role of Roles, for one stream, and, where the role has one, its group or cursor. A scope, a
// stream or a group may be a pattern. Without are keys, as roles name them, that the user makes no use of.
func (r *Rights) Role(role string, at tier.Address, group string, without ...string) {
	keys := place{at, group}.keys()
	for _, n := range needsOf(role) {
		if slices.Contains(without, n.key) {
			continue
		}
		r.need(n)
		switch key := keys[n.key]; n.key {
		case "":
		case "version":
			r.keys = append(r.keys, "%R~"+key)
		case "pid", "seen", "done": // each has a name of its own
			r.keys = append(r.keys, "~"+key[:strings.LastIndexByte(key, ':')+1]+"*")
		default:
			r.keys = append(r.keys, "~"+key)
		}
	}
}

// Scope gives the rights of roles for all that is in a scope.
func (r *Rights) Scope(scope string, roles ...string) {
	r.keys = append(r.keys, "%R~"+tier.VersionKey, "~"+tier.NodesKey, "~"+tier.ScopePattern(scope))
	for _, role := range roles {
		for _, n := range needsOf(role) {
			r.need(n)
		}
	}
}

// QueueRole gives the rights of a role of QueueRoles. Which lanes there are, nobody knows: it is for all keys of the queue.
func (r *Rights) QueueRole(role string, q tier.Queue) {
	jobs := strings.TrimSuffix(q.JobsKey(), "ids")
	for _, n := range needsOf(role) {
		r.need(n)
		switch n.key {
		case "":
		case "version":
			r.keys = append(r.keys, "%R~"+tier.VersionKey)
		case "nodes":
			r.keys = append(r.keys, "~"+tier.NodesKey)
		case "scope":
			r.keys = append(r.keys, "~"+tier.ScopeKey(string(q)), "~"+strings.TrimSuffix(jobs, ":"))
		case "events":
			r.keys = append(r.keys, "~"+q.Events().LogKey())
		case "channel":
			r.keys = append(r.keys, "&"+q.CancelChannel())
		default:
			r.keys = append(r.keys, "~"+jobs+"*")
		}
	}
}

func (r *Rights) need(n need) {
	r.commands = append(r.commands, "+"+strings.ReplaceAll(strings.ToLower(n.command), " ", "|"))
}

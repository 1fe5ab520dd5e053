package tiertest

import (
	"net"
	"strings"
	"testing"

	"github.com/echomq/pipeline/tier/embedded"
)

// Replicated is a primary and a replica that follows it, private to a test.
type Replicated struct {
	Primary, Replica *Server
}

// replicaArgs let replicas follow without the pauses that production wants.
var replicaArgs = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// NewReplicated starts a pair of servers, Valkey or Redis.
func NewReplicated(t testing.TB, k Kind, args ...string) *Replicated {
	t.Helper()
	start := func() *Server {
		return private(t, k, embedded.Config{Listen: "127.0.0.1:0", Args: append(replicaArgs, args...)})
	}
	r := &Replicated{start(), start()}
	r.follow(t)
	return r
}

func (r *Replicated) follow(t testing.TB) {
	host, port, _ := net.SplitHostPort(r.Primary.Addr())
	r.Replica.Command(t, "REPLICAOF", host, port)
}

// WaitSynced returns when the replica has what the primary had.
func (r *Replicated) WaitSynced(t testing.TB) {
	t.Helper()
	Eventually(t, startLimit, func() (bool, string) {
		info, primary := r.Replica.text("INFO", "replication"), r.Primary.text("INFO", "replication")
		return strings.Contains(info, "master_link_status:up") && offset(info) == offset(primary), info
	})
}

func offset(info string) string {
	_, rest, _ := strings.Cut(info, "master_repl_offset:")
	n, _, _ := strings.Cut(rest, "\r")
	return n
}

// Promote makes the replica a primary and the primary its replica, which
// forgets what it had more. The two change names.
func (r *Replicated) Promote(t testing.TB) {
	t.Helper()
	r.Replica.Command(t, "REPLICAOF", "NO", "ONE")
	r.Primary, r.Replica = r.Replica, r.Primary
	r.follow(t)
}

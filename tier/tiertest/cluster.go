package tiertest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// Cluster is three masters with a replica each. It belongs to one test, or to
// tests that run one after another and leave it whole, with WaitWhole.
type Cluster struct {
	Nodes []*Server
}

const (
	masters      = 3
	slots        = 16384
	clusterNodes = 2 * masters
)

// clusterArgs: a master that is gone is replaced after about two seconds, by its
// replica, however old what that has.
var clusterArgs = append([]string{
	"--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no",
}, replicaArgs...)

// NewCluster starts a cluster of one kind, Valkey or Redis.
func NewCluster(t testing.TB, k Kind) *Cluster {
	t.Helper()
	c := &Cluster{Nodes: make([]*Server, clusterNodes)}
	errs := make([]error, clusterNodes)
	var wg sync.WaitGroup
	for i := range c.Nodes {
		wg.Go(func() { c.Nodes[i], errs[i] = launch(k, embedded.Config{Member: true, Args: clusterArgs}) })
	}
	wg.Wait()
	for i, s := range c.Nodes {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		s.private = true
		t.Cleanup(func() { end(s) })
	}
	for i, s := range c.Nodes {
		s.Command(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			s.Command(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		}
		host, port, _ := net.SplitHostPort(s.Addr())
		c.Nodes[0].Command(t, "CLUSTER", "MEET", host, port, s.bus(t))
	}
	c.eachNode(t, func(s *Server) (bool, string) {
		text := s.text("CLUSTER", "NODES")
		return strings.Count(text, "connected") == clusterNodes && !strings.Contains(text, "handshake"), text
	})
	for i, s := range c.Nodes[masters:] {
		s.Command(t, "CLUSTER", "REPLICATE", c.Nodes[i].id())
	}
	c.WaitWhole(t)
	return c
}

func (s *Server) bus(t testing.TB) string {
	t.Helper()
	return s.list(t, "CONFIG", "GET", "cluster-port")[1]
}

func (s *Server) id() string { return s.text("CLUSTER", "MYID") }

// URL names all nodes.
func (c *Cluster) URL() string { return hosts(c.Nodes) }

// self is a node's row about itself: id, address, flags, the master's id, two
// times, epoch, link, and its slots.
func (s *Server) self() []string {
	for line := range strings.Lines(s.text("CLUSTER", "NODES")) {
		if row := strings.Fields(line); len(row) >= 8 && strings.Contains(row[2], "myself") {
			return row
		}
	}
	return make([]string, 8)
}

// Master is the node that owns a key's slot.
func (c *Cluster) Master(t testing.TB, key string) (owner *Server) {
	t.Helper()
	Eventually(t, startLimit, func() (bool, string) {
		newest := -1
		for _, s := range c.Nodes {
			row := s.self()
			epoch, _ := strconv.Atoi(row[6])
			if strings.Contains(row[2], "master") && holds(row[8:], tier.Slot(key)) && epoch > newest {
				owner, newest = s, epoch // a master that was away may not know yet that it is none
			}
		}
		return owner != nil, "nobody owns the slot of " + key
	})
	return owner
}

// holds reads ranges such as "0-5460" and "7000".
func holds(ranges []string, slot int) bool {
	for _, r := range ranges {
		from, to, isRange := strings.Cut(r, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, errLast := strconv.Atoi(to)
		if err == nil && errLast == nil && first <= slot && slot <= last {
			return true
		}
	}
	return false
}

// Replica is the replica of a master.
func (c *Cluster) Replica(t testing.TB, master *Server) (replica *Server) {
	t.Helper()
	id := master.id()
	Eventually(t, startLimit, func() (bool, string) {
		for _, s := range c.Nodes {
			if row := s.self(); strings.Contains(row[2], "slave") && row[3] == id {
				replica = s
			}
		}
		return replica != nil, "no replica of " + id
	})
	return replica
}

// Failover promotes the replica of a master that is well, in agreement with it,
// and returns when the others know.
func (c *Cluster) Failover(t testing.TB, key string) {
	t.Helper()
	replica := c.Replica(t, c.Master(t, key))
	Eventually(t, startLimit, func() (bool, string) { // a request is forgotten when its time has passed
		_, err := replica.command("CLUSTER", "FAILOVER")
		for range 500 {
			if strings.Contains(replica.self()[2], "master") {
				return true, ""
			}
		}
		return false, fmt.Sprint(err)
	})
	c.WaitWhole(t)
}

// WaitWhole returns when all nodes run, serve all slots, agree on who owns them,
// and all replicas follow.
func (c *Cluster) WaitWhole(t testing.TB) {
	t.Helper()
	owners := ""
	c.eachNode(t, func(s *Server) (bool, string) {
		info, self := s.text("CLUSTER", "INFO"), s.self()
		if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
			return false, info
		}
		if strings.Contains(self[2], "slave") && !strings.Contains(s.text("INFO", "replication"), "master_link_status:up") {
			return false, "a replica does not follow"
		}
		seen := s.owners()
		if s == c.Nodes[0] {
			owners = seen
		}
		return seen == owners && strings.Count(seen, "master") == masters, "the nodes do not agree on the owners:\n" + seen
	})
}

// owners are the masters with their slots as a node sees them, sorted.
func (s *Server) owners() string {
	text := s.text("CLUSTER", "NODES")
	var rows []string
	for line := range strings.Lines(text) {
		row := strings.Fields(line)
		if len(row) < 8 || strings.Contains(row[2], "fail") {
			return "unknown: " + text
		}
		role := "slave"
		if strings.Contains(row[2], "master") {
			role = "master"
		}
		var ranges []string
		for _, r := range row[8:] {
			if !strings.HasPrefix(r, "[") {
				ranges = append(ranges, r)
			}
		}
		rows = append(rows, fmt.Sprint(row[0], role, row[3], ranges))
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}

// eachNode waits until all nodes are fine in one round.
func (c *Cluster) eachNode(t testing.TB, fine func(*Server) (bool, string)) {
	t.Helper()
	Eventually(t, startLimit, func() (bool, string) {
		for i, s := range c.Nodes {
			if ok, why := fine(s); !ok {
				return false, fmt.Sprintf("node %d: %s", i, why)
			}
		}
		return true, ""
	})
}

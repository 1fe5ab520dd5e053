package tiertest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echomq/pipeline/tier/embedded"
)

// Sentinel is a replicated pair under three sentinels, private to a test.
type Sentinel struct {
	*Replicated // as it was started; see Now
	Sentinels   []*Server
}

// primaryName is what the sentinels know the pair as.
const primaryName = "main"

// NewSentinel starts a primary, a replica and three sentinels of one kind, which
// promote the replica about two seconds after the primary has gone.
func NewSentinel(t testing.TB, k Kind) *Sentinel {
	t.Helper()
	s := &Sentinel{Replicated: NewReplicated(t, k)}
	s.WaitSynced(t)
	host, port, _ := net.SplitHostPort(s.Primary.Addr())
	for range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %[1]s %s %s 2\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 4000\n", primaryName, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := embedded.Config{Listen: "127.0.0.1:0", File: file, Args: []string{"--sentinel"}}
		s.Sentinels = append(s.Sentinels, private(t, k, cfg))
	}
	Eventually(t, startLimit, func() (bool, string) {
		for _, sentinel := range s.Sentinels {
			if text := sentinel.text("INFO", "sentinel"); !strings.Contains(text, "slaves=1,sentinels=3") {
				return false, text
			}
		}
		return true, ""
	})
	return s
}

// URL names all sentinels.
func (s *Sentinel) URL() string { return hosts(s.Sentinels) + "?sentinel=" + primaryName }

// hosts is a URL with the addresses of several servers.
func hosts(servers []*Server) string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return "valkey://" + strings.Join(addrs, ",")
}

// Now is the primary that the first sentinel which answers names.
func (s *Sentinel) Now() *Server {
	for _, sentinel := range s.Sentinels {
		m, err := sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", primaryName)
		if err != nil {
			continue
		}
		if addr, err := m.AsStrSlice(); err == nil && net.JoinHostPort(addr[0], addr[1]) == s.Replica.Addr() {
			return s.Replica
		}
		break
	}
	return s.Primary
}

// Failover asks a sentinel for one, as before maintenance, and returns when the
// replica is the primary.
func (s *Sentinel) Failover(t testing.TB) {
	t.Helper()
	was := s.Now()
	Eventually(t, startLimit, func() (bool, string) { // a sentinel may find that the replica is not good enough yet
		_, err := s.Sentinels[0].command("SENTINEL", "FAILOVER", primaryName)
		return err == nil, fmt.Sprint(err)
	})
	s.WaitOther(t, was)
}

// WaitOther returns when another server than was is the primary.
func (s *Sentinel) WaitOther(t testing.TB, was *Server) {
	t.Helper()
	Eventually(t, startLimit, func() (bool, string) {
		now := s.Now()
		return now != was && strings.Contains(now.text("INFO", "replication"), "role:master"), "no other primary"
	})
}

// WaitFollowing returns when the server that is not the primary follows it again.
func (s *Sentinel) WaitFollowing(t testing.TB) {
	t.Helper()
	now := s.Now()
	other := s.Primary
	if now == other {
		other = s.Replica
	}
	Eventually(t, startLimit, func() (bool, string) {
		info := other.text("INFO", "replication")
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up"), info
	})
}

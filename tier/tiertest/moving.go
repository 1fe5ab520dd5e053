package tiertest

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// Neighbour starts a node beside a server in cluster mode, to which slots of that may be on their way. It has none.
func (s *Server) Neighbour(t testing.TB) *Server {
	t.Helper()
	n := private(t, s.Kind, embedded.Config{Member: true})
	host, port, _ := net.SplitHostPort(s.Addr())
	n.Command(t, "CLUSTER", "MEET", host, port, s.bus(t))
	Eventually(t, startLimit, func() (bool, string) {
		text := s.text("CLUSTER", "NODES")
		return strings.Contains(text, n.id()) && !strings.Contains(text, "handshake") && strings.Contains(n.text("CLUSTER", "INFO"), "cluster_state:ok"), text
	})
	return n
}

// open lets the slot of a key be on its way to another master.
func (s *Server) open(t testing.TB, key string, to *Server) {
	slot := strconv.Itoa(tier.Slot(key))
	to.Command(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", s.id())
	s.Command(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id())
}

// Moving is a slot that is on its way while a script is called.
type Moving struct {
	Begun bool // the script was called
	t     testing.TB
	s, to *Server
	slot  string
	errs  string
	stood [][]string // what removes a stand-in
}

// MoveDuring lets the slot of a script's keys be on its way to the neighbour when it is called next, with something at those
// of its keys that did not exist: the server begins it only if all do. When it is called again the slot is at rest.
func (p *Proxy) MoveDuring(t testing.TB, src Source, to *Server) *Moving {
	m := &Moving{t: t, s: p.server, to: to}
	p.DropReplies(1, func(cmd []string) bool {
		switch {
		case !src.Runs()(cmd):
		case m.Begun:
			m.Rest()
		default:
			n, _ := strconv.Atoi(cmd[2])
			m.begin(src, cmd[3:3+n])
		}
		return false
	})
	return m
}

func (m *Moving) begin(src Source, keys []string) {
	m.Begun, m.slot, m.errs = true, keys[0], m.s.errors()
	params := src.Params("KEYS")
	for i, key := range keys {
		p := params[min(i, len(params)-1)]
		if !strings.HasSuffix(key, "}:at-rest") && m.s.text("TYPE", key) == "none" {
			m.stand(key, p.Text)
		}
	}
	m.s.open(m.t, m.slot, m.to)
}

// standIn is a member that is late in every order, and an id, as members of some sets are.
const standIn = "4102444800000-0"

// stand puts something at a key that changes no answer, and is taken away again.
func (m *Moving) stand(key, text string) {
	kind, _, _ := strings.Cut(text, " ")
	switch { // of a list of keys the header does not say which is which
	case strings.HasSuffix(key, ":retry"):
		kind = "ZSET"
	case strings.Contains(key, ":jobs:result:"):
		kind = "LIST"
	}
	var put, drop []string
	switch strings.Trim(kind, ",:;") {
	case "HASH":
		put, drop = []string{"HSET", key, standIn, "-"}, []string{"HDEL", key, standIn}
	case "ZSET":
		put, drop = []string{"ZADD", key, "4e15", standIn}, []string{"ZREM", key, standIn}
	case "LIST":
		put, drop = []string{"RPUSH", key, standIn}, []string{"LREM", key, "1", standIn}
	default:
		return
	}
	m.s.Command(m.t, put...)
	m.stood = append(m.stood, drop)
}

// Rest ends it, if it was begun.
func (m *Moving) Rest() {
	if m.slot == "" {
		return
	}
	for _, s := range []*Server{m.s, m.to} {
		s.Command(m.t, "CLUSTER", "SETSLOT", strconv.Itoa(tier.Slot(m.slot)), "STABLE")
	}
	if errs := m.s.errors(); errs != m.errs && m.s.Kind == ValkeyCluster { // Redis counts what it does not know of a new connection's, too
		m.t.Errorf("a script ended halfway: %s, before it %s", errs, m.errs)
	}
	m.slot = ""
	for _, drop := range m.stood {
		m.s.Command(m.t, drop...)
	}
}

// errors are how many the server answered that have no code of their own, as that of a script has which ended halfway.
func (s *Server) errors() string {
	for line := range strings.Lines(s.text("INFO", "errorstats")) {
		if strings.HasPrefix(line, "errorstat_ERR:") {
			return strings.TrimSpace(line)
		}
	}
	return "none"
}

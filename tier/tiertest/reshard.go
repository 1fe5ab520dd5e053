package tiertest

import (
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/echomq/pipeline/tier"
)

// Move moves the slot of a key to another master as an operator's tool does,
// keys and all, and returns that master. Between opens and the keys' way, when
// not nil, is a moment at which the slot is between both.
func (c *Cluster) Move(t testing.TB, key string, between func()) (to *Server) {
	t.Helper()
	slot := strconv.Itoa(tier.Slot(key))
	from := c.Master(t, key)
	for _, s := range c.Nodes {
		if s != from && slices.Contains(c.masters(), s) {
			to = s
		}
	}
	from.open(t, key, to)
	if between != nil {
		between()
	}
	host, port, _ := net.SplitHostPort(to.Addr())
	for {
		keys := from.list(t, "CLUSTER", "GETKEYSINSLOT", slot, "100")
		if len(keys) == 0 {
			break
		}
		from.Command(t, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
	}
	// The new owner first: if it were the old one, it could be told by a node that does not know yet that it owns it still.
	for _, s := range append([]*Server{to, from}, c.masters()...) {
		s.Command(t, "CLUSTER", "SETSLOT", slot, "NODE", to.id())
	}
	return to
}

func (c *Cluster) masters() (list []*Server) {
	for _, s := range c.Nodes {
		if row := s.self(); row[2] == "myself,master" {
			list = append(list, s)
		}
	}
	return list
}

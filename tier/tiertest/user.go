package tiertest

import (
	"crypto/rand"
	"strings"
	"testing"
)

// User is a user of a server's access list.
type User struct{ Name, password string }

// NewUser makes a user on servers, with the rights of the rules and no others,
// until the test ends. Rules are those of ACL SETUSER: "+xadd", "~emq:{shop}:*".
func NewUser(t testing.TB, servers []*Server, rules ...string) *User {
	t.Helper()
	u := &User{Name: "user-" + Scope(t), password: rand.Text()}
	for _, s := range servers {
		s.Command(t, "ACL", "SETUSER", u.Name, "reset", "on", ">"+u.password)
		t.Cleanup(func() { _, _ = s.command("ACL", "DELUSER", u.Name) })
	}
	u.Grant(t, servers, rules...)
	return u
}

// Grant changes the rights, of connections that there are as well.
func (u *User) Grant(t testing.TB, servers []*Server, rules ...string) {
	t.Helper()
	for _, s := range servers {
		s.Command(t, append([]string{"ACL", "SETUSER", u.Name}, rules...)...)
	}
}

// At is the URL with which the user connects to a server, through a proxy, or to
// a cluster.
func (u *User) At(server interface{ URL() string }) string {
	return strings.Replace(server.URL(), "://", "://"+u.Name+":"+u.password+"@", 1)
}

// AtSentinel is the URL with which the user asks sentinels.
func (u *User) AtSentinel(s *Sentinel) string {
	return s.URL() + "&sentinel-user=" + u.Name + "&sentinel-password=" + u.password
}

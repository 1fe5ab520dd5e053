package tier

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"
)

// Wire is the version of keys and messages that this package speaks. The EchoMQ of other languages with the same wire
// compares it strictly.
const Wire = "echomq:3.0.0"

// VersionError says that the deployment speaks another wire version.
type VersionError struct {
	Found string // what stands at VersionKey
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("tier: the server holds data of %q, this program speaks %q: use a program of that version, or another server", e.Found, Wire)
}

// fence claims the version of a deployment or compares it, on each new connection before anything else is sent: behind
// it may stand another server, or an emptied one.
type fence struct {
	login [][]string // the commands that come before
}

// check closes the connection when it fails. A node of a cluster that does not serve VersionKey names the one that does,
// which is asked in its place.
func (f *fence) check(ctx context.Context, conn net.Conn, connect func(addr string) (net.Conn, error)) error {
	found, err := f.ask(ctx, conn)
	if addr, moved := movedTo(err, conn); moved {
		var owner net.Conn
		if owner, err = connect(addr); err == nil {
			found, err = f.ask(ctx, owner)
			owner.Close()
		}
	}
	if err == nil && !sameMajor(found, Wire) {
		err = &VersionError{Found: found}
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// ask is what stands at VersionKey, after it was claimed if nothing did.
func (f *fence) ask(ctx context.Context, conn net.Conn) (string, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	found, err := f.claimed(newTalk(conn))
	if !stop() {
		err = unreachable("GET", VersionKey, ctx.Err())
	}
	return found, err
}

func (f *fence) claimed(t *talk) (string, error) {
	get := []string{"GET", VersionKey}
	found, absent, err := t.ask(append(f.login[:len(f.login):len(f.login)], get)...)
	if err != nil || !absent {
		return found, err
	}
	if _, _, err = t.ask([]string{"SET", VersionKey, Wire, "NX"}); err != nil {
		return "", err
	}
	found, _, err = t.ask(get)
	return found, err
}

// reclaimFence is check on a connection that has passed it, whose server may have been emptied since.
func (c *Client) reclaimFence(ctx context.Context) error {
	get := func() (rueidis.RedisMessage, error) {
		return c.Do(ctx, VersionKey, c.B().Get().Key(VersionKey).Build())
	}
	m, err := get()
	if isNil(err) {
		if _, err = c.Do(ctx, VersionKey, c.B().Set().Key(VersionKey).Value(Wire).Nx().Build()); err == nil || isNil(err) {
			m, err = get()
		}
	}
	if err != nil {
		return err
	}
	found, err := m.ToString()
	if err == nil && !sameMajor(found, Wire) {
		err = &VersionError{Found: found}
	}
	return err
}

// movedTo is the address in an answer such as "MOVED 3999 127.0.0.1:6381". Without a host it is the one that was asked.
func movedTo(err error, conn net.Conn) (addr string, moved bool) {
	e, ok := err.(*Error)
	if !ok || e.Class != ErrMoved {
		return "", false
	}
	words := strings.Fields(e.Err.Error())
	host, port, err := net.SplitHostPort(words[len(words)-1])
	if err != nil {
		return "", false
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(conn.RemoteAddr().String())
	}
	return net.JoinHostPort(host, port), true
}

// sameMajor compares "name:major.minor.patch" up to the major number.
func sameMajor(a, b string) bool {
	majorA, _, _ := strings.Cut(a, ".")
	majorB, _, _ := strings.Cut(b, ".")
	return majorA == majorB
}

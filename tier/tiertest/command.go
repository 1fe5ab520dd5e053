package tiertest

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// commandLimit is short: a server that is frozen is asked too.
const commandLimit = 3 * time.Second

// Command sends one command on a connection of its own, past package tier and
// past a password for TCP, to this server and no other of its cluster. It fails
// the test when the server refuses it, or is down.
func (s *Server) Command(t testing.TB, args ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := s.command(args...)
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("tiertest: %.200q: %v", args, err)
	}
	return m
}

func (s *Server) command(args ...string) (rueidis.RedisMessage, error) {
	socket := &url.URL{Scheme: "unix", Path: filepath.Join(s.Dir(), "server.sock")}
	opt, err := rueidis.ParseURL(socket.String())
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	opt.DisableCache, opt.ForceSingleClient, opt.DisableRetry = true, true, true
	small(&opt)
	opt.ConnWriteTimeout, opt.Dialer.Timeout = commandLimit, commandLimit
	opt.AlwaysRESP2 = true // sentinels, too
	opt.ClientSetInfo = rueidis.DisableClientSetInfo
	c, err := rueidis.NewClient(opt)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	return c.Do(ctx, c.B().Arbitrary(args...).Build()).ToMessage()
}

// text is the answer as text, "" when there is none.
func (s *Server) text(args ...string) string {
	m, err := s.command(args...)
	if err != nil {
		return ""
	}
	text, _ := m.ToString()
	return text
}

func (s *Server) list(t testing.TB, args ...string) []string {
	t.Helper()
	m := s.Command(t, args...)
	list, err := m.AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

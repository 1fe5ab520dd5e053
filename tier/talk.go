package tier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// talk asks for strings on a connection that the client library does not have yet, in the protocol that a server speaks
// before it is told of a newer one. It is no client.
type talk struct {
	conn net.Conn
	in   *bufio.Reader
}

func newTalk(conn net.Conn) *talk { return &talk{conn, bufio.NewReader(conn)} }

// login is what makes a new connection one of the user, in the database of the options.
func login(opt *rueidis.ClientOption) (cmds [][]string) {
	switch {
	case opt.Username != "":
		cmds = append(cmds, []string{"AUTH", opt.Username, opt.Password})
	case opt.Password != "":
		cmds = append(cmds, []string{"AUTH", opt.Password})
	}
	if opt.SelectDB != 0 {
		cmds = append(cmds, []string{"SELECT", strconv.Itoa(opt.SelectDB)})
	}
	return cmds
}

// ask sends commands in one write. It returns the last reply, a string or none, or the first error as an *Error, which
// says that nothing but this was sent.
func (t *talk) ask(cmds ...[]string) (reply string, absent bool, err error) {
	var b strings.Builder
	for _, cmd := range cmds {
		fmt.Fprintf(&b, "*%d\r\n", len(cmd))
		for _, word := range cmd {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	// A server that refuses the connection says so and hangs up: what it says is read, also when the write fails.
	_, _ = io.WriteString(t.conn, b.String())
	for i, cmd := range cmds {
		key := ""
		if cmd[0] == "GET" || cmd[0] == "SET" {
			key = VersionKey
		}
		var refusal string
		if reply, absent, refusal, err = t.read(); err != nil {
			if i == 0 && t.plain() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
				err = fmt.Errorf("the server hung up at the first command: %w: %w", err, errBothEnds)
			}
			return "", false, unreachable(cmd[0], key, err)
		}
		if refusal != "" {
			return "", false, refused(cmd[0], key, refusal)
		}
	}
	return reply, absent, nil
}

// plain: over a network, without TLS.
func (t *talk) plain() bool {
	_, ok := t.conn.(*net.TCPConn)
	return ok
}

// maxReply is more than a version has, and than another program would keep at its key.
const maxReply = 1 << 20

func (t *talk) read() (reply string, absent bool, refusal string, err error) {
	line, err := t.in.ReadString('\n')
	if err != nil {
		return "", false, "", err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+':
		return rest, false, "", nil
	case '-':
		return "", false, rest, nil
	case '$':
		n, err := strconv.Atoi(rest)
		if n < 0 || err != nil || n > maxReply {
			if n == -1 && err == nil {
				return "", true, "", nil
			}
			break
		}
		text := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(t.in, text)
		return string(text[:n]), false, "", err
	}
	return "", false, "", fmt.Errorf("this is no Valkey or Redis: it answers %.40q", line)
}

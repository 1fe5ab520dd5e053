package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// endpoint is where a server can be reached.
type endpoint struct{ network, addr string }

// callTimeout bounds one attempt to ask a server something, so that one which
// accepts and does not answer is asked again.
const callTimeout = 2 * time.Second

// call sends one command on a connection of its own and returns the reply as
// text. It serves the few commands that start and stop a server, whose replies
// are simple, bulk or error; it is no client.
func (e endpoint) call(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, e.network, e.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

// maxReply is far above what is asked for here; what is longer is no reply of a server that was just started.
const maxReply = 16 << 20

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply")
	}
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '-':
		return "", replyError(line[1:])
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 || n > maxReply {
			return "", fmt.Errorf("reply %q", line)
		}
		body := make([]byte, n+2)
		_, err = io.ReadFull(r, body)
		return string(body[:n]), err
	}
	return "", fmt.Errorf("reply %q", line)
}

// replyError is an error that the server answered with.
type replyError string

func (e replyError) Error() string { return string(e) }

package tier

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is a connection of its own to the server that serves a key, past the fence and logged in, in the protocol that a
// server speaks before it is told of a newer one. Nothing goes over it but what its owner writes, and replies are looked at no more than
// the owner wants; of what this package promises of calls nothing holds there. It is for one goroutine that writes and one
// that reads.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
}

const (
	connOut  = 64 << 10
	maxBulk  = 512 << 20 // proto-max-bulk-len
	maxParts = 1 << 24
)

// Conn connects to the server that serves the key, with a buffer of so many bytes for replies. The caller closes it.
func (c *Client) Conn(ctx context.Context, key string, buffer int) (*Conn, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	err := error(ErrUnreachable)
	for _, n := range c.Nodes() {
		var conn net.Conn
		if conn, err = c.connectTo(ctx, n.Addr, key); err == nil {
			return NewConn(conn, buffer), nil
		}
	}
	return nil, fmt.Errorf("tier: connection for %s: %w", key, err)
}

// NewConn speaks over a connection that is there.
func NewConn(conn net.Conn, buffer int) *Conn {
	return &Conn{conn, bufio.NewReaderSize(conn, buffer), bufio.NewWriterSize(conn, connOut)}
}

// connectTo connects to one server, and asks it for the key: one of a cluster that does not serve it says so.
func (c *Client) connectTo(ctx context.Context, addr, key string) (net.Conn, error) {
	conn, err := c.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	_, _, err = newTalk(conn).ask([]string{"TYPE", key})
	if !stop() {
		err = unreachable("TYPE", key, ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Close ends the connection, for who writes and for who reads.
func (c *Conn) Close() { c.conn.Close() }

// Within makes what is sent and read until done is called end with ctx. Then the connection is of no use any more.
func (c *Conn) Within(ctx context.Context) (done func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
}

// AppendCommand appends a command as it goes over the wire.
func AppendCommand(dst []byte, words ...string) []byte {
	return appendWords(appendHead(dst, '*', len(words)), words)
}

// CommandHead is the beginning of a command that has more words.
func CommandHead(more int, words ...string) []byte {
	return appendWords(appendHead(make([]byte, 0, 128), '*', len(words)+more), words)
}

func appendWords(dst []byte, words []string) []byte {
	for _, word := range words {
		dst = append(append(appendHead(dst, '$', len(word)), word...), "\r\n"...)
	}
	return dst
}

func appendHead(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}

// Send writes commands that are encoded, or the head of one and its other words. It fails where Flush does.
func (c *Conn) Send(encoded []byte, words ...string) {
	_, _ = c.out.Write(encoded)
	for _, word := range words {
		_, _ = c.out.Write(appendHead(c.out.AvailableBuffer(), '$', len(word)))
		_, _ = c.out.WriteString(word)
		_, _ = c.out.WriteString("\r\n")
	}
}

// SendParts is Send of a command whose last word is given in parts.
func (c *Conn) SendParts(encoded, first []byte, rest []string) {
	size := len(first)
	for _, part := range rest {
		size += len(part)
	}
	_, _ = c.out.Write(encoded)
	_, _ = c.out.Write(appendHead(c.out.AvailableBuffer(), '$', size))
	_, _ = c.out.Write(first)
	for _, part := range rest {
		_, _ = c.out.WriteString(part)
	}
	_, _ = c.out.WriteString("\r\n")
}

// Flush ends a write.
func (c *Conn) Flush() error { return c.out.Flush() }

// errReply is of bytes that are no reply that was asked for. The connection is of no more use then.
var errReply = errors.New("this is no reply that can be read")

// Refusal is an error that the server answered.
type Refusal string

func (r Refusal) Error() string { return "the server answers: " + string(r) }

// readHead reads the first line of a reply: what kind it is, and its number, which is a length, a count or the value.
func readHead(in *bufio.Reader) (kind byte, n int64, line []byte, err error) {
	if line, err = in.ReadSlice('\n'); err != nil {
		return 0, 0, nil, err
	}
	kind, line = line[0], line[1:max(1, len(line)-2)]
	switch kind {
	case '-':
		return kind, 0, nil, Refusal(line)
	case '+':
		return kind, 0, line, nil
	case ':', '$', '*':
		if n, ok := number(line); ok && (kind == ':' || n <= maxBulk && (kind == '$' || n <= maxParts)) {
			return kind, n, line, nil
		}
	}
	return 0, 0, nil, fmt.Errorf("%w: it begins with %.40q", errReply, string(kind)+string(line))
}

// number reads what strconv would: most of what is read of a reply are short ones.
func number(text []byte) (n int64, ok bool) {
	if len(text) < 1 || len(text) > 9 || text[0] == '-' {
		n, err := strconv.ParseInt(string(text), 10, 64)
		return n, err == nil
	}
	for _, digit := range text {
		if digit -= '0'; digit > 9 {
			return 0, false
		}
		n = n*10 + int64(digit)
	}
	return n, true
}

// Skip reads one reply, and returns the number of its head: of a list how long it is, -1 when there is none. The error is a
// Refusal, also of one that stands in a list, or one of the connection.
func (c *Conn) Skip() (first int64, err error) {
	for left, at := int64(1), 0; left > 0; at++ {
		left--
		kind, n, _, err := readHead(c.in)
		if err != nil {
			return 0, err
		}
		if at == 0 {
			first = n
		}
		switch {
		case kind == '$' && n >= 0:
			_, err = c.in.Discard(int(n) + len("\r\n"))
		case kind == '*' && n > 0:
			left += n
		}
		if err != nil {
			return 0, err
		}
	}
	return first, nil
}

// Value reads one reply whole: a string, an int64, a []any of values, or nil.
func (c *Conn) Value() (any, error) {
	kind, n, line, err := readHead(c.in)
	switch {
	case err != nil:
		return nil, err
	case kind == '+':
		return string(line), nil
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+int64(len("\r\n")))
		_, err = io.ReadFull(c.in, text)
		return string(text[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = c.Value(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Ask sends one command and reads its reply.
func (c *Conn) Ask(words ...string) (any, error) {
	if _, err := c.conn.Write(AppendCommand(nil, words...)); err != nil {
		return nil, err
	}
	return c.Value()
}

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/tier"
)

// wire is a connection on which bytes are sent that were encoded before, and whose replies are looked at no more than is
// needed to know that the work was done. It is no client.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

// readBuffer holds the replies of a few calls.
const readBuffer = 1 << 20

func dial(ctx context.Context, client *tier.Client, key string) (*wire, error) {
	conn, err := client.Raw(ctx, key)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReaderSize(conn, readBuffer)}, nil
}

func (w *wire) close() { w.conn.Close() }

// within makes what is sent and read until done is called end with ctx. The connection is of no use after that.
func (w *wire) within(ctx context.Context) (done func() bool) {
	return context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
}

// command appends a command as it goes over the wire.
func command(dst []byte, words ...string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(words)), 10)
	dst = append(dst, "\r\n"...)
	for _, word := range words {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(word)), 10)
		dst = append(dst, "\r\n"...)
		dst = append(append(dst, word...), "\r\n"...)
	}
	return dst
}

// refusal is an error that the server answered.
type refusal string

func (r refusal) Error() string { return "the server answers: " + string(r) }

// head reads the first line of a reply: what kind it is, and its number, which is a length, a count or the value.
func (w *wire) head() (kind byte, n int64, line []byte, err error) {
	if line, err = w.in.ReadSlice('\n'); err != nil {
		return 0, 0, nil, err
	}
	kind, line = line[0], line[1:max(1, len(line)-2)]
	switch kind {
	case '-':
		return kind, 0, nil, refusal(line)
	case '+':
		return kind, 0, line, nil
	case ':', '$', '*':
		if n, err = strconv.ParseInt(string(line), 10, 64); err == nil {
			return kind, n, line, nil
		}
	}
	return 0, 0, nil, fmt.Errorf("a reply begins with %q", string(kind)+string(line))
}

// skip reads one reply, and returns the number of its head: of a list how long it is, -1 when there is none.
func (w *wire) skip() (first int64, err error) {
	for left, at := int64(1), 0; left > 0; at++ {
		left--
		kind, n, _, err := w.head()
		if err != nil {
			return 0, err
		}
		if at == 0 {
			first = n
		}
		switch {
		case kind == '$' && n >= 0:
			_, err = w.in.Discard(int(n) + len("\r\n"))
		case kind == '*' && n > 0:
			left += n
		}
		if err != nil {
			return 0, err
		}
	}
	return first, nil
}

// value reads one reply whole: a string, an int64, a list of values, or nil.
func (w *wire) value() (any, error) {
	kind, n, line, err := w.head()
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
		_, err = io.ReadFull(w.in, text)
		return string(text[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = w.value(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ask sends one command and reads its reply.
func (w *wire) ask(ctx context.Context, words ...string) (any, error) {
	defer w.within(ctx)()
	if _, err := w.conn.Write(command(nil, words...)); err != nil {
		return nil, ended(ctx, words[0], err)
	}
	v, err := w.value()
	return v, ended(ctx, words[0], err)
}

// ended prefers to what failed on a connection why it was ended.
func ended(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("bench: %s: %w", what, err)
}

// flow writes n chunks and reads what each is answered, with at most depth on their way.
func (w *wire) flow(ctx context.Context, what string, n, depth int, chunk func(i int) []byte, reply func(i int) error) error {
	defer w.within(ctx)()
	room, stop := make(chan struct{}, depth), make(chan struct{})
	p := pool.New().WithErrors().WithFirstError()
	p.Go(func() error {
		for i := range n {
			select {
			case room <- struct{}{}:
			case <-stop:
				return nil
			}
			if _, err := w.conn.Write(chunk(i)); err != nil {
				return err
			}
		}
		return nil
	})
	var err error
	for i := 0; i < n && err == nil; i++ {
		if err = reply(i); err == nil {
			<-room
		}
	}
	if close(stop); err != nil {
		_ = w.conn.SetDeadline(time.Unix(1, 0)) // for who writes
	}
	return ended(ctx, what, errors.Join(err, p.Wait()))
}

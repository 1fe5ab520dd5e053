package tiertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// frames cuts a connection's bytes into commands or replies, of RESP2 and
// RESP3. It looks no deeper than it has to: at the ends of frames.
type frames struct {
	r   *bufio.Reader
	buf []byte // the frame; valid until the next call
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReaderSize(r, 64<<10)} }

// more says whether bytes have arrived that were not asked for yet.
func (f *frames) more() bool { return f.r.Buffered() > 0 }

// command reads a request: an array of bulk strings. The name of the command
// comes in upper case.
func (f *frames) command() (raw []byte, args []string, err error) {
	f.buf = f.buf[:0]
	kind, n, err := f.head()
	if err != nil {
		return nil, nil, err
	}
	if kind != '*' {
		return nil, nil, fmt.Errorf("tiertest: a request starts with %q", kind)
	}
	for range n {
		kind, size, err := f.head()
		if err != nil {
			return nil, nil, err
		}
		if kind != '$' {
			return nil, nil, fmt.Errorf("tiertest: an argument starts with %q", kind)
		}
		arg, err := f.body(size)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, string(arg))
	}
	if len(args) > 0 {
		args[0] = strings.ToUpper(args[0])
	}
	return f.buf, args, nil
}

// reply reads what a server sends, once: a reply, with the attributes before it,
// or a push, which answers no command.
func (f *frames) reply() (raw []byte, push bool, err error) {
	f.buf = f.buf[:0]
	for left := 1; left > 0; left-- {
		kind, n, err := f.head()
		if err != nil {
			return nil, false, err
		}
		switch kind {
		case '+', '-', ':', '_', ',', '#', '(':
		case '$', '=', '!':
			if n >= 0 {
				_, err = f.body(n)
			}
		case '*', '~', '>':
			left += max(n, 0) // -1 is RESP2's null
		case '%':
			left += 2 * n
		case '|':
			left += 2*n + 1 // what it describes comes after it
		default:
			return nil, false, fmt.Errorf("tiertest: a reply starts with %q", kind)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return f.buf, f.buf[0] == '>', nil
}

// head reads one line: the kind, and for a kind that has one, the number.
func (f *frames) head() (kind byte, n int, err error) {
	line, err := f.r.ReadBytes('\n')
	if err != nil {
		return 0, 0, err
	}
	f.buf = append(f.buf, line...)
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(text) == 0 {
		return 0, 0, fmt.Errorf("tiertest: line %q", line)
	}
	if !strings.ContainsRune("$=!*~>%|", rune(text[0])) {
		return text[0], 0, nil
	}
	n, err = strconv.Atoi(string(text[1:]))
	if err != nil || n < -1 || n > 1<<30 || n < 0 && text[0] == '%' || n < 0 && text[0] == '|' {
		return 0, 0, fmt.Errorf("tiertest: line %q", line)
	}
	return text[0], n, nil
}

func (f *frames) body(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("tiertest: length %d", n)
	}
	at := len(f.buf)
	// In steps: a length is a claim, and memory is taken for bytes that came.
	for left := n + 2; left > 0; {
		step := min(left, f.r.Size())
		f.buf = append(f.buf, make([]byte, step)...)
		if _, err := io.ReadFull(f.r, f.buf[len(f.buf)-step:]); err != nil {
			return nil, err
		}
		left -= step
	}
	return f.buf[at : at+n], nil
}

// encode is a request, as a client sends it.
func encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

package tier

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/echomq/pipeline/codec"
)

// readReply is readStreams, or Read, of a reply as it comes in the older protocol, of a page that is empty. None at all is no entries.
func (p *Page) readReply(r *bufio.Reader, plain bool) error {
	n, err := header(r, '*')
	if err != nil || n <= 0 {
		return err
	}
	if plain {
		return p.readEntries(r, n)
	}
	if n != 1 {
		return fmt.Errorf("%w: of %d streams", errReply, n)
	}
	if err := pair(r); err != nil {
		return err
	}
	if _, err := p.readText(r, 0); err != nil { // the key
		return err
	}
	if n, err = header(r, '*'); err != nil {
		return err
	}
	return p.readEntries(r, n)
}

func (p *Page) readEntries(r *bufio.Reader, n int) error {
	p.begin(min(max(0, n), maxEntries))
	size := 0
	for left := n - 1; left >= 0; left-- {
		if bytes, ok := p.readBuffered(r, left); ok {
			size += bytes
			continue
		}
		if err := pair(r); err != nil {
			return err
		}
		id, err := readID(r)
		if err != nil {
			return err
		}
		values, err := header(r, '*')
		if err != nil {
			return err
		}
		values = max(0, values) // none: it was trimmed
		fields := p.room(min(values, maxFields), min(left+1, maxEntries))
		for range values {
			value, err := p.readText(r, left)
			if err != nil {
				return err
			}
			fields = append(fields, value)
			size += len(value)
		}
		p.add(id, fields)
	}
	p.mean = size / max(1, n)
	return nil
}

// readBuffered reads an entry that is in the reader's buffer whole, as nearly all are, at less than half the price. Not ok: nothing was
// read, and it goes line by line, which tells what is wrong.
func (p *Page) readBuffered(r *bufio.Reader, left int) (size int, ok bool) {
	b, _ := r.Peek(r.Buffered())
	l := lines{b: b}
	pair, idText, n := l.number('*'), l.text(), l.number('*')
	if l.bad || pair != 2 || n > maxFields {
		return 0, false
	}
	id, err := codec.ParseEntryID(textOf(idText))
	if err != nil {
		return 0, false
	}
	fields := p.room(n, min(left+1, maxEntries))
	for range n {
		text := l.text()
		if l.bad {
			return 0, false
		}
		value := fieldOf(text)
		if value == "" {
			own := p.bytes(len(text), left)
			copy(own, text)
			value = textOf(own)
		}
		fields = append(fields, value)
		size += len(value)
	}
	p.add(id, fields)
	_, err = r.Discard(l.at)
	return size, err == nil
}

// lines walks over a part of a reply. What it gives means nothing once it is bad: there is something else, or the part ends.
type lines struct {
	b   []byte
	at  int
	bad bool
}

// mostDigits are those of a number that is believed here.
const mostDigits = 9

// number is that of a line behind a mark.
func (l *lines) number(mark byte) (n int) {
	if l.at < len(l.b) && l.b[l.at] == mark {
		for i, c := range l.b[l.at+1 : min(len(l.b), l.at+mostDigits+2)] {
			if digit := c - '0'; digit <= 9 {
				n = n*10 + int(digit)
				continue
			}
			if end := l.at + 1 + i; i > 0 && c == '\r' && end+1 < len(l.b) && l.b[end+1] == '\n' {
				l.at = end + 2
				return n
			}
			break
		}
	}
	l.bad = true
	return 0
}

// text is a text with its length before it.
func (l *lines) text() []byte {
	n := l.number('$')
	end := l.at + n
	if l.bad = l.bad || end+len("\r\n") > len(l.b); l.bad {
		return nil
	}
	text := l.b[l.at:end]
	l.at = end + len("\r\n")
	return text
}

// What is made room for by a number in a reply, whatever follows.
const (
	maxEntries = 1024
	maxFields  = 64      // of each
	maxBytes   = 1 << 20 // of a value
)

// readText reads a text into memory of its own. The names of our fields are not copied.
func (p *Page) readText(r *bufio.Reader, left int) (string, error) {
	n, err := header(r, '$')
	if err != nil {
		return "", err
	}
	if n < 0 {
		return "", fmt.Errorf("%w: a text of %d bytes", errReply, n)
	}
	if n <= len(codec.FieldID) {
		if b, err := r.Peek(n); err != nil {
			return "", err
		} else if name := fieldOf(b); name != "" {
			return name, skip(r, n)
		}
	}
	if n > maxBytes {
		var large bytes.Buffer
		if _, err := io.CopyN(&large, r, int64(n)); err != nil {
			return "", err
		}
		return textOf(large.Bytes()), skip(r, 0)
	}
	b := p.bytes(n, left)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	return textOf(b), skip(r, 0)
}

func fieldOf(b []byte) string {
	switch string(b) {
	case codec.FieldMessage:
		return codec.FieldMessage
	case codec.FieldPack:
		return codec.FieldPack
	case codec.FieldID:
		return codec.FieldID
	}
	return ""
}

func readID(r *bufio.Reader) (codec.EntryID, error) {
	n, err := header(r, '$')
	if err != nil {
		return codec.EntryID{}, err
	}
	if n < 0 || n > maxID {
		return codec.EntryID{}, fmt.Errorf("%w: an id of %d bytes", errReply, n)
	}
	b, err := r.Peek(n)
	if err != nil {
		return codec.EntryID{}, err
	}
	id, err := codec.ParseEntryID(textOf(b))
	if err != nil {
		return id, fmt.Errorf("%w: the id %.40q", errReply, b)
	}
	return id, skip(r, n)
}

// maxID is the length of the longest entry id.
const maxID = 41

// pair reads the head of a list of two.
func pair(r *bufio.Reader) error {
	n, err := header(r, '*')
	if err == nil && n != 2 {
		err = fmt.Errorf("%w: %d parts, not 2", errReply, n)
	}
	return err
}

// skip passes over the rest of a text, and the end of the line.
func skip(r *bufio.Reader, n int) error {
	_, err := r.Discard(n + len("\r\n"))
	return err
}

// header reads the line of a number, -1 for nothing, behind a mark. An error of the server is a Refusal.
func header(r *bufio.Reader, mark byte) (int, error) {
	kind, n, _, err := readHead(r)
	if err == nil && kind != mark {
		err = fmt.Errorf("%w: %q where %q was asked for", errReply, kind, mark)
	}
	return int(n), err
}

package embedded

import (
	"bytes"
	"io"
	"sync"
)

// tail keeps the end of what is written to it, and passes everything on.
type tail struct {
	mu   sync.Mutex
	last []byte
	to   io.Writer // may be nil
}

// tailSize is enough for the few lines with which a server says why it ends.
const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if over := len(t.last) - tailSize; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	if t.to != nil {
		// An error would make the copy from the server's pipe end, and the server
		// block or die of it: what cannot be logged is dropped.
		_, _ = t.to.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}

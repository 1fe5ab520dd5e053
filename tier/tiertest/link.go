package tiertest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// link is one connection through a proxy. One goroutine carries the requests,
// one the replies; when either ends, both sides are closed, and so the other
// ends too.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	once           sync.Once
	closed         chan struct{}
	hung           chan struct{} // closed by hangUp

	mu      sync.Mutex
	waiting []fate // one for each command whose reply has not come yet
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		l.client.Close()
		l.server.Close()
	})
}

// linger is how long a client has to see that we hung up.
const linger = time.Second

// hangUp ends a connection so that what was written to the client arrives: a
// close with requests that nobody has read would reset the connection, and the
// client might lose what it has not read yet.
func (l *link) hangUp() {
	close(l.hung)
	l.server.Close()
	if c, ok := l.client.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	_ = l.client.SetReadDeadline(time.Now().Add(linger))
}

func (l *link) requests() {
	defer l.proxy.remove(l)
	defer l.close()
	l.carryRequests()
	// After a hang-up, what the client sends until it sees it is lost.
	_, _ = io.Copy(io.Discard, l.client)
}

func (l *link) replies() {
	if l.carryReplies() == losesReply {
		l.hangUp()
		return
	}
	l.close()
}

func (l *link) carryRequests() {
	in, out := newFrames(l.client), bufio.NewWriter(l.server)
	for {
		raw, cmd, err := in.command()
		if err != nil {
			return
		}
		if len(cmd) > 0 { // a server passes over an empty request, too
			what := l.proxy.judge(l, cmd)
			if what == tooLate {
				return
			}
			if what == isLost {
				out.Flush() // what came before it is not lost
				l.proxy.countDropped()
				l.close()
				return
			}
			if !answeredByPush[cmd[0]] {
				l.await(what)
			}
		}
		if !l.pass(0) || !forward(out, raw, in.more()) {
			return
		}
	}
}

// answeredByPush are the commands that RESP3 answers with pushes only.
var answeredByPush = map[string]bool{
	"SUBSCRIBE": true, "PSUBSCRIBE": true, "SSUBSCRIBE": true,
	"UNSUBSCRIBE": true, "PUNSUBSCRIBE": true, "SUNSUBSCRIBE": true,
}

// carryReplies returns losesReply when a reply has come that is to be lost.
func (l *link) carryReplies() fate {
	in, out := newFrames(l.server), bufio.NewWriter(l.client)
	for {
		fresh := !in.more() // a burst is held once, not once for each reply in it
		raw, push, err := in.reply()
		if err != nil {
			return passes
		}
		_, delay := l.proxy.passing()
		if !fresh {
			delay = 0
		}
		if !l.pass(delay) {
			return passes
		}
		if !push && l.answered() == losesReply {
			out.Flush()
			l.proxy.countDropped()
			return losesReply
		}
		if !forward(out, raw, in.more()) {
			return passes
		}
	}
}

// ended says whether the client has been told, or is being told, that this is
// the end.
func (l *link) ended() bool {
	select {
	case <-l.closed:
		return true
	case <-l.hung:
		return true
	default:
		return false
	}
}

// await notes a command before it is delivered, so that its reply is expected.
func (l *link) await(what fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, what)
}

// answered takes the command that a reply belongs to: the oldest.
func (l *link) answered() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return passes // a server that says why it hangs up
	}
	what := l.waiting[0]
	l.waiting = l.waiting[1:]
	return what
}

// pass waits until bytes may pass; false when the connection has ended.
func (l *link) pass(delay time.Duration) bool {
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.closed:
			return false
		}
	}
	gate, _ := l.proxy.passing()
	select {
	case <-l.closed:
		return false
	case <-gate:
		return true
	}
}

// forward writes a frame, and what was held back before it unless more follows.
func forward(out *bufio.Writer, raw []byte, more bool) bool {
	if _, err := out.Write(raw); err != nil {
		return false
	}
	return more || out.Flush() == nil
}

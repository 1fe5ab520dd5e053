package tier

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Feed reads the entries of one stream into pages, over a connection of its own: the client library makes five pieces of memory of an
// entry, and these are half of what reading costs a client. What its connection is refused, or cannot do, the client does, which
// knows what is wrong, and where else the key may be.
//
// It is safe for concurrent use; of several reads one has the connection.
type Feed struct {
	client *Client
	key    string

	mu     sync.Mutex
	node   int      // which of the deployment's is asked
	at     string   // the client's primary when it was
	conn   net.Conn // nil: none yet, or the last one failed
	in     *bufio.Reader
	out    []byte
	busy   bool // a read is under way, which has conn, in and out
	closed bool // or of no use: it answers what is not understood
}

// Feed makes a feed of a stream. It sends nothing. The caller closes it.
func (c *Client) Feed(key string) *Feed { return &Feed{client: c, key: key} }

// feedBuffer is read at once.
const feedBuffer = 32 << 10

// Close gives the connection up, at the end of a read that is under way. What comes later is read over the client's.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed = true; !f.busy {
		f.drop()
	}
}

// Read reads up to n entries after an id, waiting up to wait for the first; none when there are none. The command, XREAD or XREADGROUP,
// is given up to where its options come; of the latter the id ">" is what nobody was given. Errors and contexts are those of Client.Wait.
func (f *Feed) Read(ctx context.Context, p *Page, n int, wait time.Duration, after string, command ...string) error {
	command = append(command, "COUNT", strconv.Itoa(n))
	if wait = wait.Truncate(time.Millisecond); wait > 0 {
		command = append(command, "BLOCK", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	if done, err := f.ask(ctx, p, wait, command[0], append(append(command, "STREAMS"), f.key, after)); done {
		return err
	}
	cmd := f.client.B().Arbitrary(append(command, "STREAMS")...).Keys(f.key).Args(after)
	var m rueidis.RedisMessage
	var err error
	if wait > 0 {
		m, err = f.client.Wait(ctx, f.key, wait, cmd.Blocking())
	} else {
		m, err = f.client.Do(ctx, f.key, cmd.Build())
	}
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.readStreams(m)
}

// Range reads up to n entries from one id to another, both included, "-" and "+" being the ends, as XRANGE does. Errors are those of Client.Do.
func (f *Feed) Range(ctx context.Context, p *Page, from, to string, n int) error {
	count := strconv.Itoa(n)
	if done, err := f.ask(ctx, p, 0, rangeCommand, []string{rangeCommand, f.key, from, to, "COUNT", count}); done {
		return err
	}
	m, err := f.client.Do(ctx, f.key, f.client.B().Arbitrary(rangeCommand).Keys(f.key).Args(from, to, "COUNT", count).Build())
	if err != nil {
		return err
	}
	return p.Read(m)
}

// rangeCommand gives nothing to anybody, so it is cut off at the end of its context.
const rangeCommand = "XRANGE"

// ask sends a command over the feed's connection and reads the reply. Done is false when the client has to be asked.
func (f *Feed) ask(ctx context.Context, p *Page, wait time.Duration, op string, words []string) (done bool, err error) {
	p.begin(0)
	if err := ctx.Err(); err != nil {
		return true, Wrap(op, f.key, err)
	}
	if !f.begin(ctx) {
		return false, nil
	}
	if op == rangeCommand {
		conn := f.conn
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		err = f.talk(p, wait, words)
		if !stop() {
			err = ctx.Err()
		}
	} else {
		err = f.talk(p, wait, words)
	}
	f.end(err)
	switch {
	case errors.As(err, new(Refusal)):
		return false, nil
	case err != nil && f.client.closed.Load():
		err = rueidis.ErrClosing
	}
	return true, Wrap(op, f.key, err)
}

// begin connects, if need be. False: another reads, or there is no connection.
func (f *Feed) begin(ctx context.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy || f.closed || f.client.closed.Load() {
		return false
	}
	if f.conn != nil && f.at != primary(f.client.pipe) {
		f.drop()
	}
	f.busy = f.conn != nil || f.connect(ctx)
	return f.busy
}

// end drops a connection that has failed, or is wanted no more. Where the server has refused, the key may be another node's.
func (f *Feed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	if errors.As(err, new(Refusal)) {
		f.node++
	}
	if f.closed = f.closed || errors.Is(err, errReply); f.closed || err != nil {
		f.drop()
	}
}

func (f *Feed) connect(ctx context.Context) bool {
	nodes := f.client.Nodes()
	if len(nodes) == 0 {
		return false
	}
	ctx, cancel := f.client.deadline(ctx)
	defer cancel()
	conn, err := f.client.dial(ctx, nodes[f.node%len(nodes)].Addr)
	if err != nil {
		return false
	}
	until, _ := ctx.Deadline()
	if err = conn.SetDeadline(until); err == nil {
		_, _, err = newTalk(conn).ask([]string{"CLIENT", "SETNAME", f.client.opts.ClientName})
	}
	if err != nil && Classify(err) != ErrPermission {
		conn.Close()
		return false
	}
	f.at = primary(f.client.pipe)
	f.conn, f.in = conn, bufio.NewReaderSize(conn, feedBuffer)
	f.client.dedicated.Store(f, true)
	return true
}

func (f *Feed) drop() {
	if f.conn != nil {
		f.conn.Close()
		f.conn, f.in = nil, nil
		f.client.dedicated.Delete(f)
	}
}

// talk sends words, and reads the reply.
func (f *Feed) talk(p *Page, wait time.Duration, words []string) error {
	most := f.client.opts.CallTimeout
	if wait > 0 {
		most = wait + min(waitMargin, most)
	}
	if err := f.conn.SetDeadline(time.Now().Add(most)); err != nil {
		return err
	}
	f.out = AppendCommand(f.out[:0], words...)
	if _, err := f.conn.Write(f.out); err != nil {
		return err
	}
	return p.readReply(f.in, words[0] == rangeCommand)
}

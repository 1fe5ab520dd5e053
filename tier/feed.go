package tier

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
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
	busy   bool     // a read is under way, which has conn, in, out, ahead and asked
	ahead  bool     // the reply to a read that was asked for ahead is to come
	asked  []string // that read, of AskRange; nil: it is one of ReadAhead
	closed bool     // or of no use: it answers what is not understood
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
// is given up to where its options come; of the latter the id ">" is what nobody was given. Errors are those of Client.Wait.
// The end of ctx cuts off XREAD, and not XREADGROUP, which is as in Client.Wait.
func (f *Feed) Read(ctx context.Context, p *Page, n int, wait time.Duration, after string, command ...string) error {
	_, err := f.ReadAhead(ctx, p, n, wait, nil, after, command...)
	return err
}

// ReadAhead is Read by the one goroutine that reads ahead: when entries begin to come, next is called, and as many as it says are asked for
// at once, so that the server is at work while these are read. More tells that some were; the next ReadAhead brings them, if there are any,
// in place of others. After an error nothing is to come any more: what was asked for ahead may have been given out, or will be.
func (f *Feed) ReadAhead(
	ctx context.Context, p *Page, n int, wait time.Duration, next func() int, after string, command ...string,
) (more bool, err error) {
	words := func(n int, wait time.Duration) []string {
		words := append(slices.Clip(command), "COUNT", strconv.Itoa(n))
		if wait > 0 {
			words = append(words, "BLOCK", strconv.FormatInt(wait.Milliseconds(), 10))
		}
		return append(words, "STREAMS", f.key, after)
	}
	var then func() []string
	if next != nil {
		then = func() []string {
			if n := next(); n > 0 {
				return words(n, 0)
			}
			return nil
		}
	}
	wait = wait.Truncate(time.Millisecond)
	asked := words(n, wait)
	if done, more, err := f.ask(ctx, p, wait, asked, then); done {
		return more, err
	}
	at := len(asked) - 2 // the key
	cmd := f.client.B().Arbitrary(asked[:at]...).Keys(f.key).Args(after)
	var m rueidis.RedisMessage
	if wait > 0 {
		m, err = f.client.Wait(ctx, f.key, wait, cmd.Blocking())
	} else {
		m, err = f.client.Do(ctx, f.key, cmd.Build())
	}
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return false, p.readStreams(m)
}

// Range reads up to n entries from one id to another, both included, "-" and "+" being the ends, as XRANGE does. Errors are those of Client.Do.
func (f *Feed) Range(ctx context.Context, p *Page, from, to string, n int) error {
	words := f.rangeWords(from, to, n)
	if done, _, err := f.ask(ctx, p, 0, words, nil); done {
		return err
	}
	m, err := f.client.Do(ctx, f.key, f.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err != nil {
		return err
	}
	return p.Read(m)
}

// AskRange asks for what the next Range is to read, so that the server is at work on it before. The Range of anything else gives it up.
// What goes wrong here is that Range's to find.
func (f *Feed) AskRange(ctx context.Context, from, to string, n int) {
	words := f.rangeWords(from, to, n)
	if ok, _ := f.begin(ctx, words, false); !ok {
		return
	}
	var err error
	if !f.ahead {
		if err = f.conn.SetDeadline(time.Now().Add(f.client.opts.CallTimeout)); err == nil {
			err = f.send(words)
		}
		f.ahead, f.asked = true, words
	}
	f.end(err)
}

func (f *Feed) rangeWords(from, to string, n int) []string {
	return []string{rangeCommand, f.key, from, to, "COUNT", strconv.Itoa(n)}
}

const rangeCommand = "XRANGE"

// leasingCommand is not cut off at the end of its context: what it gives would be leased to somebody who does not know it.
const leasingCommand = "XREADGROUP"

// ask sends a command over the feed's connection and reads the reply; or the one to what then has asked for the last time, if there is a
// then. Done is false when the client has to be asked.
func (f *Feed) ask(ctx context.Context, p *Page, wait time.Duration, words []string, then func() []string) (done, more bool, err error) {
	p.begin(0)
	op := words[0]
	if err := ctx.Err(); err != nil {
		f.Abandon()
		return true, false, Wrap(op, f.key, err)
	}
	if ok, err := f.begin(ctx, words, then != nil); !ok {
		return err != nil, false, Wrap(op, f.key, err)
	}
	if op != leasingCommand {
		conn := f.conn
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		err = f.talk(p, wait, words, then)
		if !stop() {
			err = ctx.Err()
		}
	} else {
		err = f.talk(p, wait, words, then)
	}
	more = f.end(err)
	switch {
	case errors.As(err, new(Refusal)): // nothing was asked for ahead then
		return false, false, nil
	case err != nil && f.client.closed.Load():
		err = rueidis.ErrClosing
	}
	return true, more, Wrap(op, f.key, err)
}

// Abandon gives up what was asked for ahead, with its connection.
func (f *Feed) Abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.busy && f.ahead {
		f.drop()
	}
}

// begin connects, if need be. False without an error: another reads, or there is no connection. What was asked for ahead is for who
// reads ahead; a range is for that range, and lost without harm.
func (f *Feed) begin(ctx context.Context, words []string, readsAhead bool) (ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy || f.closed || f.ahead && f.asked == nil && !readsAhead || f.client.closed.Load() {
		return false, nil
	}
	if f.asked != nil && !slices.Equal(f.asked, words) {
		f.drop()
	}
	if f.conn != nil && f.at != primary(f.client.pipe) {
		lost := f.ahead && f.asked == nil
		if f.drop(); lost {
			return false, errors.New("what was asked for ahead went with its server")
		}
	}
	f.busy = f.conn != nil || f.connect(ctx)
	return f.busy, nil
}

// end drops a connection that has failed, or is wanted no more. Where the server has refused, the key may be another node's.
func (f *Feed) end(err error) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	if errors.As(err, new(Refusal)) {
		f.node++
	}
	if f.closed = f.closed || errors.Is(err, errReply); f.closed || err != nil {
		f.drop()
	}
	return f.ahead
}

func (f *Feed) connect(ctx context.Context) bool {
	at, nodes := primary(f.client.pipe), f.client.Nodes()
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
	f.at, f.conn, f.in = at, conn, bufio.NewReaderSize(conn, feedBuffer)
	f.client.dedicated.Store(f, true)
	return true
}

func (f *Feed) drop() {
	if f.conn != nil {
		f.conn.Close()
		f.conn, f.in, f.ahead, f.asked = nil, nil, false, nil
		f.client.dedicated.Delete(f)
	}
}

// talk sends words, unless a reply is to come, and reads it. When entries begin to come, what then says is sent.
func (f *Feed) talk(p *Page, wait time.Duration, words []string, then func() []string) error {
	most := f.client.opts.CallTimeout
	if wait > 0 {
		most = wait + min(waitMargin, most)
	}
	if err := f.conn.SetDeadline(time.Now().Add(most)); err != nil {
		return err
	}
	if !f.ahead {
		if err := f.send(words); err != nil {
			return err
		}
	}
	f.ahead, f.asked = false, nil
	if then != nil {
		mark, err := f.in.Peek(2)
		if err != nil {
			return err
		}
		if string(mark) == "*1" { // of one stream: there are entries
			if next := then(); next != nil {
				if err := f.send(next); err != nil {
					return err
				}
				f.ahead = true
			}
		}
	}
	return p.readReply(f.in, words[0] == rangeCommand)
}

func (f *Feed) send(words []string) error {
	f.out = AppendCommand(f.out[:0], words...)
	_, err := f.conn.Write(f.out)
	return err
}

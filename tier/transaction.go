package tier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Transaction runs commands all or none: MULTI on a connection of its own. A script could do that too, but what it is given goes through Lua,
// which makes a text of it and hashes that byte by byte. A transaction is there to save work, not to be relied on: Exec and Run may always say that it has
// not run, and the caller runs the scripts that it stands for.
//
// It runs only if keys are as they were when they were last looked at: Open looks, and Exec runs commands, and looks for the next ones with them, so that
// while nobody else writes to the keys each takes one round trip.
//
// Or it watches nothing, and its last command sees for itself: Hand hands commands over, before it is known whether they shall run, and Run runs them. So two
// that take turns keep a server busy.
//
// No command ever goes out behind a MULTI of which the server has not said that it holds: for a user whose MULTI is refused, what follows would run at
// once, one by one.
type Transaction struct {
	dedicated // while it is open
	key       string
	look      []byte // what opens it, encoded
	seen      int    // how many replies that has before that of MULTI
	handed    int    // commands that the server holds
	started   int    // and was told to run
	broken    error  // since these were started
}

// Transaction makes one. It sends nothing. The connection ends when it is not used for a while, or with the client.
func (c *Client) Transaction() *Transaction { return &Transaction{dedicated: dedicated{client: c}} }

// Open watches keys of one slot, and then looks at them with commands, whose replies it returns, one for each. An error says
// that it is not open; nothing but this was sent.
func (t *Transaction) Open(ctx context.Context, watch []string, look ...[]string) ([]any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current()
	again := t.conn != nil
	t.look = t.look[:0]
	for _, words := range append([][]string{append([]string{"WATCH"}, watch...)}, look...) {
		t.look = AppendCommand(t.look, words...)
	}
	t.look = AppendCommand(t.look, "MULTI")
	t.seen = 1 + len(look)
	var first []byte
	if again { // what it has seen is of no use any more
		first = AppendCommand(nil, "DISCARD")
	}
	return t.open(ctx, watch[0], first)
}

// Hand hands commands on keys of the given one's slot over, so many as write returns, for Run to run. A transaction that watches nothing is opened first, where
// none is open. An error says that none of them runs.
func (t *Transaction) Hand(ctx context.Context, key string, write func(*Conn) int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current(); t.conn == nil {
		t.look, t.seen = AppendCommand(t.look[:0], "MULTI"), 0
		if _, err := t.open(ctx, key, nil); err != nil {
			return err
		}
	}
	ctx, cancel := t.client.deadline(ctx)
	defer cancel()
	defer t.conn.Within(ctx)()
	t.handed += write(t.conn)
	if err := t.conn.Flush(); err != nil {
		t.drop()
		return t.failed(ctx, "MULTI", key, err)
	}
	t.rest()
	return nil
}

// Start has what was handed over run, before Run waits for it.
func (t *Transaction) Start(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current(); t.conn == nil {
		return
	}
	ctx, cancel := t.client.deadline(ctx)
	defer cancel()
	defer t.conn.Within(ctx)()
	t.started, t.handed = t.handed, 0
	if t.broken = t.exec(); t.broken != nil {
		t.drop()
	}
}

// exec sends what ends the transaction, and opens the next one.
func (t *Transaction) exec() error {
	t.conn.Send(AppendCommand(nil, "EXEC"))
	t.conn.Send(t.look)
	return t.conn.Flush()
}

// Discard gives up what was handed over.
func (t *Transaction) Discard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started = 0
	t.drop()
}

// open sends first, whose reply is of no interest, and what opens a transaction.
func (t *Transaction) open(ctx context.Context, key string, first []byte) ([]any, error) {
	ctx, cancel := t.client.deadline(ctx)
	defer cancel()
	t.key, t.handed, t.started = key, 0, 0
	if err := t.connect(ctx, key); err != nil {
		return nil, Wrap("MULTI", key, err)
	}
	if t.client.closed.Load() {
		t.drop()
		return nil, &Error{Op: "MULTI", Key: key, Class: ErrClosed, Err: errors.New("the client was closed")}
	}
	defer t.conn.Within(ctx)()
	t.conn.Send(first)
	t.conn.Send(t.look)
	err := t.conn.Flush()
	if err == nil && first != nil {
		_, err = t.conn.Skip()
	}
	var seen []any
	if err == nil {
		seen, err = t.looked()
	}
	if err != nil {
		t.drop()
		return nil, t.failed(ctx, "MULTI", key, err)
	}
	t.rest()
	return seen, nil
}

// Exec runs the commands that write writes, so many as it returns, and reads their replies with read, one after another, when all have run: one that the
// server refused when it ran is a Refusal, which is read's to judge. Ran false without an error says that none had an effect. Seen are the replies of the next
// look; nil when the transaction is not open any more. The error is that of a call.
func (t *Transaction) Exec(ctx context.Context, write func(*Conn) int, read func(c *Conn, i int) error) (seen []any, ran bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current(); t.conn == nil {
		return nil, false, nil
	}
	return t.finish(ctx, func() (int, error) { return write(t.conn), t.exec() }, read)
}

// Run runs what was handed over, unless that was started, then does what can be done while the server works, and reads the replies as Exec does.
func (t *Transaction) Run(ctx context.Context, meanwhile func(), read func(c *Conn, i int) error) (ran bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current()
	n, started := t.handed, t.started > 0
	if started {
		n = t.started
	}
	t.handed, t.started = 0, 0
	switch {
	case t.conn == nil && started: // it may have run
		return false, t.failed(ctx, "EXEC", t.key, cmp.Or(t.broken, errSwitched))
	case t.conn == nil:
		return false, nil
	}
	_, ran, err = t.finish(ctx, func() (_ int, err error) {
		if !started {
			err = t.exec()
		}
		meanwhile()
		return n, err
	}, read)
	return ran, err
}

// finish reads the replies to so many commands as send says, and to what opens the next transaction.
func (t *Transaction) finish(ctx context.Context, send func() (int, error), read func(c *Conn, i int) error) (seen []any, ran bool, err error) {
	ctx, cancel := t.client.deadline(ctx)
	defer cancel()
	defer t.conn.Within(ctx)()
	clean := false
	defer func() {
		if !clean { // somebody else's panic, too: the next one would take these replies for its own
			t.drop()
		}
	}()
	n, err := send()
	if err == nil {
		ran, err = t.replies(n, read)
	}
	if err == nil && ran {
		err = t.left()
	}
	if isRefusal(err) { // all are refused, which a script will explain
		return nil, false, nil
	}
	if err != nil {
		return nil, false, t.failed(ctx, "EXEC", t.key, err)
	}
	if seen, err = t.looked(); err != nil { // what ran is known
		return nil, ran, nil
	}
	clean = true
	t.rest()
	return seen, ran, nil
}

// replies reads those of the commands: first that they stand in line, then what EXEC says.
func (t *Transaction) replies(n int, read func(c *Conn, i int) error) (ran bool, err error) {
	for range n {
		if _, err := t.conn.Skip(); err != nil && !isRefusal(err) { // EXEC is refused then
			return false, err
		}
	}
	_, have, _, err := readHead(t.conn.in)
	switch {
	case err != nil:
		return false, err
	case have < 0:
		return false, nil
	case have != int64(n):
		return false, fmt.Errorf("%d replies to %d commands", have, n)
	}
	for i := range n {
		if err := read(t.conn, i); err != nil {
			return false, err
		}
	}
	return true, nil
}

// looked reads the replies of what opens a transaction. That of WATCH is of no interest.
func (t *Transaction) looked() (seen []any, err error) {
	for i := range t.seen {
		v, err := t.conn.Value()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			seen = append(seen, v)
		}
	}
	_, err = t.conn.Skip()
	return seen, err
}

func isRefusal(err error) bool {
	var r Refusal
	return errors.As(err, &r)
}

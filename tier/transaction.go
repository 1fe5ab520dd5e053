package tier

import (
	"context"
	"errors"
	"fmt"
)

// Transaction runs commands all or none, and only if keys are as they were when they were last looked at: WATCH and MULTI on a
// connection of its own. A script could compare first, but what it is given goes through Lua, which makes a text of it and hashes that byte by byte.
//
// Who runs one looks for the next one with it, so that while nobody else writes to the keys each takes one round trip. A
// transaction is there to save work, not to be relied on: Exec may always say that it has not run, and the caller runs the
// scripts that it stands for.
type Transaction struct {
	dedicated // while it is open
	key       string
	look      []byte // what opens it, encoded
	seen      int    // how many replies that has
}

// Transaction makes one. It sends nothing. The connection ends when it is not used for a while, or with the client.
func (c *Client) Transaction() *Transaction { return &Transaction{dedicated: dedicated{client: c}} }

// Open watches keys of one slot, and then looks at them with commands, whose replies it returns, one for each. An error says
// that it is not open; nothing but this was sent.
func (t *Transaction) Open(ctx context.Context, watch []string, look ...[]string) ([]any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current()
	ctx, cancel := t.client.deadline(ctx)
	defer cancel()
	t.key, t.seen = watch[0], len(look)
	again := t.conn != nil
	t.look = t.look[:0]
	t.look = AppendCommand(t.look, append([]string{"WATCH"}, watch...)...)
	for _, words := range look {
		t.look = AppendCommand(t.look, words...)
	}
	t.look = AppendCommand(t.look, "MULTI")
	if err := t.connect(ctx, t.key); err != nil {
		return nil, Wrap("WATCH", t.key, err)
	}
	if t.client.closed.Load() {
		t.drop()
		return nil, &Error{Op: "WATCH", Key: t.key, Class: ErrClosed, Err: errors.New("the client was closed")}
	}
	defer t.conn.Within(ctx)()
	if again { // what it has seen is of no use any more
		t.conn.Send(AppendCommand(nil, "DISCARD"))
	}
	t.conn.Send(t.look)
	err := t.conn.Flush()
	if err == nil && again {
		_, err = t.conn.Skip()
	}
	var seen []any
	if err == nil {
		seen, err = t.looked()
	}
	if err != nil {
		t.drop()
		return nil, t.failed(ctx, "WATCH", t.key, err)
	}
	t.rest()
	return seen, nil
}

// Exec sends the commands that write writes, so many as it returns, then does what can be done while the server works, and reads
// their replies with read, one after another, when all have run: one that the server refused when it ran is a Refusal, which is read's to
// judge. Ran false without an error says that none had an effect. Seen are the replies of the next look; nil when the transaction is not
// open any more. The error is that of a call.
func (t *Transaction) Exec(ctx context.Context, write func(*Conn) int, meanwhile func(), read func(c *Conn, i int) error) (seen []any, ran bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current(); t.conn == nil {
		return nil, false, nil
	}
	ctx, cancel := t.client.deadline(ctx)
	defer cancel()
	defer t.conn.Within(ctx)()
	clean := false
	defer func() {
		if !clean { // somebody else's panic, too: the next one would take these replies for its own
			t.drop()
		}
	}()
	n := write(t.conn)
	t.conn.Send(AppendCommand(nil, "EXEC"))
	t.conn.Send(t.look)
	err = t.conn.Flush()
	meanwhile()
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

// looked reads the replies of what opens a transaction.
func (t *Transaction) looked() (seen []any, err error) {
	if _, err := t.conn.Skip(); err != nil {
		return nil, err
	}
	for range t.seen {
		v, err := t.conn.Value()
		if err != nil {
			return nil, err
		}
		seen = append(seen, v)
	}
	_, err = t.conn.Skip()
	return seen, err
}

func isRefusal(err error) bool {
	var r Refusal
	return errors.As(err, &r)
}

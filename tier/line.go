package tier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Line runs scripts over a connection of its own, one at a time: who calls writes and reads, and wakes nobody who does that for all calls of the
// client. It is for who calls often; what is rare, or goes wrong, is left to the client.
type Line struct {
	dedicated
	often  time.Duration // between two calls; so short that no server is lost and back meanwhile
	pauses time.Duration // after what went wrong
	last   time.Time     // when it was called
	until  time.Time     // it is not used before
}

// Line makes one. It sends nothing. Its connection ends when it is not used for a while, or with the client.
func (c *Client) Line() *Line {
	return &Line{dedicated: dedicated{client: c}, often: 100 * time.Millisecond, pauses: time.Second}
}

// Texts runs a script that answers a list of n texts. The error is that of Client.Run.
func (l *Line) Texts(ctx context.Context, call Call, n int) ([]string, error) {
	if reply, err := l.run(ctx, call); err != nil {
		return nil, err
	} else if reply != nil {
		return textsOf(call.Script.Name, reply, n)
	}
	m, err := l.client.Run(ctx, call)
	if err != nil {
		return nil, err
	}
	return Texts(call.Script.Name, m, n)
}

// run answers nil when nothing was done.
func (l *Line) run(ctx context.Context, call Call) (reply any, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	often := now.Sub(l.last) < l.often
	l.last = now
	if l.current(); !often || now.Before(l.until) {
		return nil, nil
	}
	if err := l.connect(ctx, call.Keys[0]); err != nil || l.client.closed.Load() {
		if l.hangUp(); errors.Is(err, ErrPermission) {
			l.often = 0 // it is not tried again
		}
		return nil, nil
	}
	if reply, err = l.ask(ctx, call); err == nil {
		err = l.left()
	}
	if err == nil {
		l.rest()
		return reply, nil
	}
	l.hangUp()
	switch err = l.failed(ctx, call.Script.Name, call.Keys[0], err); Classify(err) {
	case ErrNoScript, ErrMoved: // the client sends it, or finds the node
		return nil, nil
	case ErrWrongType: // what was written before is not written again
		l.client.nameWrongKey(ctx, call, err)
	}
	return nil, err
}

func (l *Line) ask(ctx context.Context, call Call) (any, error) {
	if err := l.conn.conn.SetDeadline(time.Now().Add(l.client.opts.CallTimeout)); err != nil {
		return nil, err
	}
	defer func(within func() bool) {
		if !within() { // it may end what comes next
			l.drop()
		}
	}(l.conn.Within(ctx))
	keys := l.client.keys(call)
	l.conn.Send(CommandHead(len(keys)+len(call.Args), "EVALSHA", call.Script.sha, strconv.Itoa(len(keys))), keys...)
	l.conn.Send(nil, call.Args...)
	if err := l.conn.Flush(); err != nil {
		return nil, err
	}
	return l.conn.Value()
}

func (l *Line) hangUp() {
	l.drop()
	l.until = time.Now().Add(l.pauses)
}

func textsOf(op string, reply any, n int) ([]string, error) {
	parts, _ := reply.([]any)
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i], _ = part.(string)
	}
	if len(texts) != n {
		return nil, fmt.Errorf("tier: %s: unexpected reply: %d parts, not %d", op, len(texts), n)
	}
	return texts, nil
}

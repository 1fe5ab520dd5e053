package tier

import (
	"context"
	"errors"
	"sync"
	"time"
)

// dedicated is a connection that somebody has for calls on keys of one slot, for as long as it is used. Whatever goes wrong on it ends it.
type dedicated struct {
	client *Client

	mu   sync.Mutex // of whoever uses it, and of all that follows
	conn *Conn      // nil: there is none
	at   string     // the client's primary when it was made
	idle *time.Timer
	used time.Time
}

const (
	dedicatedReplies = 32 << 10         // bytes of the buffer
	dedicatedIdle    = 10 * time.Second // after which the connection is given up
)

// connect makes the connection, unless there is one.
func (d *dedicated) connect(ctx context.Context, key string) error {
	if d.conn != nil {
		return nil
	}
	d.at = primary(d.client.pipe)
	conn, err := d.client.Conn(ctx, key, dedicatedReplies)
	if err != nil {
		return err
	}
	d.conn = conn
	d.client.dedicated.Store(conn, true)
	return nil
}

// rest keeps the connection for a while.
func (d *dedicated) rest() {
	d.used = time.Now()
	if d.idle == nil {
		d.idle = time.AfterFunc(dedicatedIdle, d.tire)
	}
}

func (d *dedicated) tire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = nil
	if d.conn == nil {
		return
	}
	if left := dedicatedIdle - time.Since(d.used); left > 0 {
		d.idle = time.AfterFunc(left, d.tire)
		return
	}
	d.drop()
}

// current gives up a connection to a server that the client has left.
func (d *dedicated) current() {
	if d.conn != nil && d.at != primary(d.client.pipe) {
		d.drop()
	}
}

// left is the error of a call whose server has answered when the client had left it already: what it took may be lost with it.
func (d *dedicated) left() error {
	if d.at != primary(d.client.pipe) {
		return errSwitched
	}
	return nil
}

func (d *dedicated) drop() {
	if d.conn != nil {
		d.conn.Close()
		d.client.dedicated.Delete(d.conn)
		d.conn = nil
	}
}

// failed gives an error its class. The server has refused what follows a refusal too, or has not run it.
func (d *dedicated) failed(ctx context.Context, op, key string, err error) error {
	var r Refusal
	switch {
	case errors.As(err, &r):
		return refused(op, key, string(r))
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return d.client.wrap(op, key, err)
}

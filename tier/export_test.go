package tier

import (
	"bufio"
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing/iotest"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
)

// Parsers are fuzzed by themselves: through Dial, each input would cost a connection.

// ParseURL is how Dial reads a URL.
func ParseURL(url string) (rueidis.ClientOption, error) { return clientOption(url, nil) }

// ParseInfo is how the probe reads INFO.
func ParseInfo(text string) (Server, error) { return parseInfo(text) }

// KeyTypes are the types of a script's keys, as its header says.
func (s *Script) KeyTypes() map[int]string { return s.types }

// LeaseNodeAt is LeaseNode on a host with another clock.
func (c *Client) LeaseNodeAt(ctx context.Context, now func() time.Time) (*NodeLease, error) {
	return c.leaseNode(ctx, now)
}

// OpenAndExec is Do with something in between: after the server has opened the transaction, before the command is sent.
func (g *Guard) OpenAndExec(ctx context.Context, value string, cmd rueidis.Completed, between func()) (ran bool, err error) {
	open, err := g.open(ctx, value)
	if err != nil || !open {
		return false, err
	}
	between()
	_, ran, err = g.exec(ctx, cmd)
	return ran, err
}

// Connected tells whether the feed has a connection of its own.
func (f *Feed) Connected() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn != nil
}

// Busy tells whether a read is under way on it.
func (f *Feed) Busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.busy
}

// ReadPage reads a reply as a feed does, at once and as it comes, which is the same.
func ReadPage(reply string) ([]codec.Entry, error) {
	var atOnce, asItComes Page
	err := atOnce.readReply(bufio.NewReader(strings.NewReader(reply)), false)
	other := asItComes.readReply(bufio.NewReader(iotest.OneByteReader(strings.NewReader(reply))), false)
	if (err == nil) != (other == nil) || err == nil && !reflect.DeepEqual(atOnce.Entries, asItComes.Entries) {
		panic(fmt.Sprintf("at once %q, %v; as it comes %q, %v", atOnce.Entries, err, asItComes.Entries, other))
	}
	return atOnce.Entries, err
}

// Always has the line use its connection, from the next call on, however rare they are, and after whatever went wrong.
func (l *Line) Always() {
	l.often, l.pauses, l.last, l.until = time.Hour, 0, time.Now(), time.Time{}
}

// Unused has it be time for the line to look whether its connection was used, which it was not for as long as it is kept.
func (l *Line) Unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = l.used.Add(-dedicatedIdle)
	l.idle.Reset(0)
}

// Connected tells whether the line has a connection of its own.
func (l *Line) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/tier"
)

// Rate is how many messages a second the open loop sends, whatever becomes of them.
const Rate = 1000

// late is how long after the last one was to be sent a message may come.
const late = 30 * time.Second

// openLoop sends messages at a fixed rate and notes when each arrives. What counts is the time from when it was to be sent:
// one that is sent late, because the machine or those before it were slow, has waited that long, as it would have had its
// sender not been held up. (Measured from the sending, a stall of a second would count once, and not for the thousand
// messages that it held up.)
type openLoop struct {
	begun  time.Time
	took   []atomic.Int64 // ns; 0: it has not arrived
	left   atomic.Int64
	all    chan struct{}
	opened chan struct{}
}

func newLoop(n int) *openLoop {
	l := &openLoop{took: make([]atomic.Int64, n), all: make(chan struct{}), opened: make(chan struct{})}
	l.left.Store(int64(n))
	return l
}

func (l *openLoop) due(i int) time.Time { return l.begun.Add(time.Duration(i) * time.Second / Rate) }

// numberBytes is how many bytes of a message's data say which one it is.
const numberBytes = 8

// data is that of the i-th message, which is as long as all are.
func (l *openLoop) data(a *arena, i int) []byte {
	b := slices.Clone(a.data)
	binary.BigEndian.PutUint64(b, uint64(i))
	return b
}

// arrivedWith is arrived for the message of some data.
func (l *openLoop) arrivedWith(data []byte) {
	if len(data) >= numberBytes {
		l.arrived(int(binary.BigEndian.Uint64(data)))
	}
}

// arrived notes that the i-th message has arrived. That it comes again is not counted, nor what no loop has sent.
func (l *openLoop) arrived(i int) {
	select {
	case <-l.opened:
	default:
		return
	}
	if i < 0 || i >= len(l.took) || !l.took[i].CompareAndSwap(0, max(1, int64(time.Since(l.due(i))))) {
		return
	}
	if l.left.Add(-1) == 0 {
		close(l.all)
	}
}

// run sends all of them, and returns when all have arrived. Wait says that a send may wait for the server, and then each
// has a goroutine of its own, so that none holds up the next.
func (l *openLoop) run(ctx context.Context, wait bool, send func(ctx context.Context, i int) error) error {
	l.begun = time.Now()
	close(l.opened)
	senders := pool.New().WithContext(ctx).WithFirstError()
	err := l.each(ctx, func(i int) error {
		if !wait {
			return send(ctx, i)
		}
		senders.Go(func(ctx context.Context) error { return send(ctx, i) })
		return nil
	})
	if err := errors.Join(err, senders.Wait()); err != nil {
		return err
	}
	timer := time.NewTimer(late)
	defer timer.Stop()
	select {
	case <-l.all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("bench: %d of %d messages have not come within %s", l.left.Load(), len(l.took), late)
	}
}

// each calls send for each message when it is due.
func (l *openLoop) each(ctx context.Context, send func(i int) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range l.took {
		timer.Reset(time.Until(l.due(i)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := send(i); err != nil {
			return err
		}
	}
	return nil
}

// times are how long each took.
func (l *openLoop) times() []time.Duration {
	list := make([]time.Duration, len(l.took))
	for i := range l.took {
		list[i] = time.Duration(l.took[i].Load())
	}
	return list
}

// rawLatency is the least that a message can take: an append on one connection, and on another a read that waits.
func rawLatency(ctx context.Context, a *arena, l *openLoop) (err error) {
	key := a.address().LogKey()
	if _, err := a.wire.ask(ctx, "XGROUP", "CREATE", key, rawGroup, "0", "MKSTREAM"); err != nil {
		return err
	}
	reader, err := dial(ctx, a.client, key)
	if err != nil {
		return err
	}
	defer reader.Close()
	p := pool.New().WithContext(ctx).WithFirstError().WithCancelOnError()
	p.Go(func(ctx context.Context) error { return rawArrivals(ctx, reader, key, len(l.took), l.arrived) })
	p.Go(func(ctx context.Context) error {
		defer a.wire.Within(ctx)()
		one := tier.AppendCommand(nil, "XADD", key, "*", "m", string(a.data))
		replies := pool.New().WithErrors()
		replies.Go(func() error {
			for range l.took {
				if _, err := a.wire.Skip(); err != nil {
					return ended(ctx, "XADD", err)
				}
			}
			return nil
		})
		err := l.run(ctx, false, func(ctx context.Context, _ int) error {
			err := a.wire.write(one)
			return ended(ctx, "XADD", err)
		})
		if err != nil {
			a.wire.Close()
		}
		if waited := replies.Wait(); err == nil {
			err = waited
		}
		return err
	})
	if err := p.Wait(); err != nil {
		return err
	}
	return a.delete(ctx, key)
}

// rawArrivals reads n entries as they come, in their order, and acknowledges them.
func rawArrivals(ctx context.Context, w *wire, key string, n int, arrived func(i int)) error {
	for at := 0; at < n; {
		reply, err := w.ask(ctx, "XREADGROUP", "GROUP", rawGroup, "c", "COUNT", strconv.Itoa(chunk), "BLOCK", "100", "STREAMS", key, ">")
		if err != nil {
			return err
		}
		ids := entryIDs(reply)
		for range ids {
			arrived(at)
			at++
		}
		if len(ids) == 0 {
			continue
		}
		if _, err := w.ask(ctx, append([]string{"XACK", key, rawGroup}, ids...)...); err != nil {
			return err
		}
	}
	return nil
}

// entryIDs are those of the one log of a reply to XREADGROUP.
func entryIDs(reply any) (ids []string) {
	logs, _ := reply.([]any)
	for _, log := range logs {
		pair, _ := log.([]any)
		if len(pair) != 2 {
			continue
		}
		entries, _ := pair[1].([]any)
		for _, e := range entries {
			if entry, _ := e.([]any); len(entry) == 2 {
				id, _ := entry[0].(string)
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// quantiles are those of a list, in microseconds.
func quantiles(list []time.Duration, at ...float64) []float64 {
	sorted := slices.Sorted(slices.Values(list))
	values := make([]float64, len(at))
	for i, q := range at {
		values[i] = sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds() * 1e6
	}
	return values
}

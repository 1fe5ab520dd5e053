package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// What calls that are measured one by one have.
const (
	callBatch = 100
	trimBatch = 1000
	longLease = time.Hour // of what is held all the while
)

// aLog is a stream that grows, with a writer and a member of a group that has seen all.
type aLog struct {
	*arena
	n       int // messages of a step
	size    int // entries
	address tier.Address
	to      *stream.Writer
	marks   []codec.ID // of each hundredth message, in their order
	group   *stream.Group
	member  *stream.Member
}

func (l *aLog) calls() int { return max(1, l.n/callBatch) }

func (l *aLog) batch() int { return min(callBatch, l.n) }

// fillTo makes the log and fills it with what no group has to do with.
func (l *aLog) fillTo(ctx context.Context) (err error) {
	l.address = l.arena.address()
	if l.to, err = stream.NewWriter(l.client, stream.WriterConfig{Address: l.address.String(), Brand: "GRW"}); err != nil {
		return err
	}
	for at := 0; at < l.size; at += fillBatch {
		if err := l.append(ctx, min(fillBatch, l.size-at)); err != nil {
			return err
		}
	}
	l.group, err = stream.NewGroup(l.client, stream.GroupConfig{Address: l.address.String(), Name: groupName, Start: stream.New(), Lease: longLease})
	return err
}

func (l *aLog) append(ctx context.Context, n int) error {
	list := make([]codec.Message, n)
	for i := range list {
		list[i] = l.message(i)
	}
	ids, err := l.to.AppendBatch(ctx, list)
	for i := 0; i < len(ids); i += callBatch {
		l.marks = append(l.marks, ids[i])
	}
	return err
}

// appendAll appends what a step reads.
func (l *aLog) appendAll(ctx context.Context) error {
	for range l.calls() {
		if err := l.append(ctx, l.batch()); err != nil {
			return err
		}
	}
	return nil
}

// join makes the member.
func (l *aLog) join(ctx context.Context) (err error) {
	if err := l.group.Create(ctx); err != nil {
		return err
	}
	if l.member, err = l.group.Join(ctx, "bench"); err == nil {
		_, err = l.member.Sync(ctx)
	}
	return err
}

// consume reads a batch and settles it.
func (l *aLog) consume(ctx context.Context, _ int) error {
	return consumeBatch(ctx, l.member, l.batch())
}

// reader is a member of a group, or of a queue's workers.
type reader interface {
	Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error)
	Settle(ctx context.Context, entries []codec.EntryID) (int, error)
}

func consumeBatch(ctx context.Context, m reader, n int) error {
	for n > 0 {
		leased, err := m.Read(ctx, n, time.Second)
		if err != nil {
			return err
		}
		if len(leased) == 0 {
			return fmt.Errorf("%d messages are not there to be read", n)
		}
		ids := make([]codec.EntryID, len(leased))
		for i := range leased {
			ids[i] = leased[i].Entry
		}
		settled, err := m.Settle(ctx, ids)
		if err := errors.Join(err, short("settled", int64(settled), int64(len(ids)))); err != nil {
			return err
		}
		n -= len(leased)
	}
	return nil
}

// cut trims to the size of the log, as much as one step has appended.
func (l *aLog) cut(ctx context.Context) error {
	_, err := l.wire.ask(ctx, "XTRIM", l.address.LogKey(), "MAXLEN", strconv.Itoa(l.size))
	return err
}

func (l *aLog) clean(ctx context.Context) error {
	var err error
	if l.member != nil {
		err = l.member.Leave(ctx)
	}
	return errors.Join(err, l.delete(ctx, l.address.LogKey()))
}

// length is a log of so many entries, all settled.
type length struct {
	aLog
	reader *stream.Reader
	sweep  *stream.Sweep
	policy stream.Retention
	middle codec.EntryID
	id     codec.ID // of a message there
}

func newLength(a *arena, size int, cfg *GrowthConfig) specimen {
	return &length{aLog: aLog{arena: a, n: cfg.Count, size: size}}
}

func (l *length) prepare(ctx context.Context) (float64, error) {
	if err := l.fillTo(ctx); err != nil {
		return 0, err
	}
	if err := l.join(ctx); err != nil {
		return 0, err
	}
	var err error
	if l.reader, err = stream.NewReader(l.client, stream.ReaderConfig{Address: l.address.String()}); err != nil {
		return 0, err
	}
	l.policy = stream.Retention{MaxLength: int64(l.size), Exact: true}
	if err := stream.SetRetention(ctx, l.client, l.address.String(), l.policy); err != nil {
		return 0, err
	}
	if l.sweep, err = stream.NewSweep(l.client, l.scope, longLease); err != nil {
		return 0, err
	}
	if held, _, err := l.sweep.Take(ctx); err != nil || !held {
		return 0, errors.Join(err, errors.New("bench: somebody else trims the new scope"))
	}
	bytes, err := l.meter.stored(ctx, []string{l.address.LogKey()})
	return float64(bytes) / float64(l.size), err
}

func (l *length) steps() []step {
	calls, batch := l.calls(), l.batch()
	trims := max(1, calls*batch/trimBatch)
	return []step{
		{work: "append", calls: calls, each: batch, call: func(ctx context.Context, _ int) error { return l.append(ctx, batch) }},
		{work: "consume", calls: calls, each: batch, call: l.consume},
		{work: "range", calls: 1, each: calls * batch, before: l.look, call: l.readRange},
		{work: "get", calls: calls, each: 1, call: l.get},
		{work: "trim", calls: trims, each: calls * batch / trims, call: func(ctx context.Context, i int) error {
			return l.trim(ctx, calls*batch-(i+1)*(calls*batch/trims))
		}},
	}
}

// look finds the middle of the log.
func (l *length) look(context.Context) error {
	here := parts(callBatch, l.size) + l.calls()
	l.marks = l.marks[max(0, len(l.marks)-here):]
	l.id = l.marks[len(l.marks)/2]
	l.middle = l.id.ServerEntry()
	return nil
}

func (l *length) readRange(ctx context.Context, _ int) error {
	n, want := 0, l.calls()*l.batch()
	for _, err := range l.reader.Range(ctx, l.middle, codec.MaxEntryID) {
		if err != nil {
			return err
		}
		if n++; n == want {
			break
		}
	}
	return short("read", int64(n), int64(want))
}

func (l *length) get(ctx context.Context, _ int) error {
	r, err := l.reader.Get(ctx, l.id)
	if err == nil && r.ID != l.id {
		err = fmt.Errorf("%s is not the message that was asked for", r.ID)
	}
	return err
}

// trim leaves so many more than the log is to have.
func (l *length) trim(ctx context.Context, more int) error {
	got, err := l.sweep.Trim(ctx, l.address.Stream, l.policy, stream.Trim{Keep: int64(l.size + more), Exact: true})
	return errors.Join(err, short("entries left", got.Left, int64(l.size+more)))
}

// pending is a log whose group has read so many entries and settled none of them.
type pending struct{ aLog }

func newPending(a *arena, size int, cfg *GrowthConfig) specimen {
	return &pending{aLog{arena: a, n: cfg.Count, size: size}}
}

func (p *pending) prepare(ctx context.Context) (float64, error) {
	if err := p.fillTo(ctx); err != nil {
		return 0, err
	}
	log := p.address.LogKey()
	if err := p.join(ctx); err != nil {
		return 0, err
	}
	if _, err := p.wire.ask(ctx, "XGROUP", "SETID", log, groupName, "0"); err != nil {
		return 0, err
	}
	bytes, err := p.meter.stored(ctx, []string{log})
	if err != nil {
		return 0, err
	}
	before, err := p.meter.used(ctx)
	if err != nil {
		return 0, err
	}
	err = p.wire.flow(ctx, "XREADGROUP", parts(rangeChunk, p.size), readDepth, func(int) []byte {
		return tier.AppendCommand(nil, "XREADGROUP", "GROUP", groupName, "holder", "COUNT", strconv.Itoa(rangeChunk), "STREAMS", log, ">")
	}, func(int) error {
		_, err := p.wire.Skip()
		return err
	})
	if err != nil {
		return 0, err
	}
	after, err := p.meter.used(ctx) // MEMORY USAGE only guesses what the list of what is pending takes, three times as much
	return float64(bytes+after-before) / float64(p.size), err
}

func (p *pending) steps() []step {
	calls := p.calls()
	return []step{
		{work: "consume", calls: calls, each: p.batch(), before: p.appendAll, call: p.consume},
		{work: "look", calls: calls, each: 1, call: func(ctx context.Context, _ int) error {
			taken, err := p.member.TakeOver(ctx, callBatch, 0)
			return errors.Join(err, short("taken over", int64(len(taken.Leased)), 0))
		}},
		{work: "checkpoint", calls: calls, each: 1, before: p.cutBehind, call: func(ctx context.Context, _ int) error { return p.member.Checkpoint(ctx) }},
	}
}

// cutBehind takes away what the step before has read: the newest entries, so that what is pending stays.
func (p *pending) cutBehind(ctx context.Context) error {
	log := p.address.LogKey()
	reply, err := p.wire.ask(ctx, "XREVRANGE", log, "+", "-", "COUNT", strconv.Itoa(p.calls()*p.batch()))
	if err != nil {
		return err
	}
	words := []string{"XDEL", log}
	entries, _ := reply.([]any)
	for _, e := range entries {
		if pair, _ := e.([]any); len(pair) == 2 {
			id, _ := pair[0].(string)
			words = append(words, id)
		}
	}
	_, err = p.wire.ask(ctx, words...)
	return err
}

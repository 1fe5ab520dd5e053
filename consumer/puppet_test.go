package consumer_test

import (
	"context"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// puppet is a source whose members' calls a test can hold up, refuse and watch.
type puppet struct {
	consumer.Source
	// before runs before each call; an error is the call's. after may change the error of a call that was made.
	before func(ctx context.Context, call string) error
	after  func(call string, err error) error

	mu     sync.Mutex
	member consumer.Member
	calls  map[string]int
	gate   chan struct{} // closed: calls pass
}

func newPuppet(s consumer.Source) *puppet {
	gate := make(chan struct{})
	close(gate)
	return &puppet{Source: s, calls: map[string]int{}, gate: gate}
}

// freeze holds up all calls from now on, as if the process did not run; thaw lets them go on.
func (p *puppet) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = make(chan struct{})
}

func (p *puppet) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.gate)
}

func (p *puppet) made(call string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[call]
}

func (p *puppet) Join(ctx context.Context, prefix string) (consumer.Member, error) {
	m, err := p.Source.Join(ctx, prefix)
	if err != nil {
		return nil, err
	}
	p.member = m
	if ahead, ok := m.(aheadReader); ok {
		return pulledAhead{pulled{m, p}, ahead}, nil
	}
	return pulled{m, p}, nil
}

func (p *puppet) call(ctx context.Context, name string, f func() error) error {
	p.mu.Lock()
	p.calls[name]++
	gate := p.gate
	p.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return tier.Wrap(name, "", ctx.Err())
	}
	if p.before != nil {
		if err := p.before(ctx, name); err != nil {
			return err
		}
	}
	err := f()
	if p.after != nil {
		err = p.after(name, err)
	}
	return err
}

type pulled struct {
	consumer.Member
	p *puppet
}

type aheadReader interface {
	ReadAhead(ctx context.Context, n int, wait time.Duration, next func() int) (leased []tier.Leased, more bool, err error)
}

// pulledAhead reads ahead; that more is on its way is a call of its own.
type pulledAhead struct {
	pulled
	ahead aheadReader
}

func (m pulledAhead) ReadAhead(ctx context.Context, n int, wait time.Duration, next func() int) (out []tier.Leased, more bool, err error) {
	err = m.p.call(ctx, "read", func() error {
		out, more, err = m.ahead.ReadAhead(ctx, n, wait, next)
		return err
	})
	if err == nil && more {
		err = m.p.call(ctx, "read, more is on its way", func() error { return nil })
	}
	if err != nil {
		if more { // what is on its way is lost with it
			_, _, _ = m.ahead.ReadAhead(ctx, n, 0, func() int { return 0 })
		}
		return nil, false, err
	}
	return out, more, nil
}

func (m pulled) Read(ctx context.Context, n int, wait time.Duration) (out []tier.Leased, err error) {
	err = m.p.call(ctx, "read", func() error { out, err = m.Member.Read(ctx, n, wait); return err })
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (m pulled) TakeOver(ctx context.Context, n, suspects int) (out tier.Taken, err error) {
	err = m.p.call(ctx, "take over", func() error { out, err = m.Member.TakeOver(ctx, n, suspects); return err })
	return out, err
}

func (m pulled) Due(ctx context.Context, n int) (out tier.Taken, err error) {
	err = m.p.call(ctx, "due", func() error { out, err = m.Member.Due(ctx, n); return err })
	return out, err
}

func (m pulled) Sync(ctx context.Context) (out []tier.Held, err error) {
	err = m.p.call(ctx, "sync", func() error { out, err = m.Member.Sync(ctx); return err })
	return out, err
}

func (m pulled) Rebuild(ctx context.Context) (out tier.Rebuilt, err error) {
	err = m.p.call(ctx, "rebuild", func() error { out, err = m.Member.Rebuild(ctx); return err })
	return out, err
}

func (m pulled) Checkpoint(ctx context.Context) error {
	return m.p.call(ctx, "checkpoint", func() error { return m.Member.Checkpoint(ctx) })
}

func (m pulled) Settle(ctx context.Context, entries []codec.EntryID) (acked int, err error) {
	err = m.p.call(ctx, "settle", func() error { acked, err = m.Member.Settle(ctx, entries); return err })
	return acked, err
}

func (m pulled) Renew(ctx context.Context, entries []codec.EntryID) (gone []codec.EntryID, err error) {
	err = m.p.call(ctx, "renew", func() error { gone, err = m.Member.Renew(ctx, entries); return err })
	return gone, err
}

func (m pulled) Release(ctx context.Context, held []tier.Returned, delay time.Duration) error {
	return m.p.call(ctx, "release", func() error { return m.Member.Release(ctx, held, delay) })
}

func (m pulled) Commit(ctx context.Context, entries []tier.Ending) error {
	return m.p.call(ctx, "commit", func() error { return m.Member.Commit(ctx, entries) })
}

func (m pulled) Parked(ctx context.Context, stay func(context.Context) error) (out []tier.Parked, err error) {
	teller := m.Member.(interface {
		Parked(ctx context.Context, stay func(context.Context) error) ([]tier.Parked, error)
	})
	err = m.p.call(ctx, "parked", func() error { out, err = teller.Parked(ctx, stay); return err })
	return out, err
}

func (m pulled) Retire(ctx context.Context) error {
	return m.p.call(ctx, "retire", func() error { return m.Member.Retire(ctx) })
}

func (m pulled) Leave(ctx context.Context) error {
	return m.p.call(ctx, "leave", func() error { return m.Member.Leave(ctx) })
}

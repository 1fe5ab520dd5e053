package main

import (
	"context"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// tally counts what was handled, and with --count sees to it that no more is
// fetched than is still wanted: what one consumer fetches, the others of its group
// do not get.
type tally struct {
	most    int    // 0: no bound
	reached func() // called when the bound is

	mu      sync.Mutex
	handled int
	flying  map[codec.EntryID]int // messages of fetched entries that no handler has finished
	size    int                   // messages of the largest entry so far, 0 before the first
}

// finished counts a message and returns how many have been handled.
func (t *tally) finished(e codec.EntryID, ok bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flying[e]--; t.flying[e] <= 0 {
		delete(t.flying, e)
	}
	if ok {
		t.handled++
	}
	if t.most > 0 && t.handled >= t.most && len(t.flying) == 0 {
		t.reached()
	}
	return t.handled
}

// room is how many of n entries may be fetched. The first one is fetched alone: it
// tells whether entries are packs.
func (t *tally) room(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.most - t.handled
	for _, messages := range t.flying {
		want -= messages
	}
	switch {
	case want <= 0:
		return 0
	case t.size == 0:
		return min(n, 1)
	}
	return min(n, max(1, want/t.size))
}

func (t *tally) took(entries []tier.Leased) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		t.size = max(t.size, len(e.Records))
		for i := range e.Records {
			if e.Records[i].Err == nil && (e.Open == nil || e.Open[i].Delay == 0) { // others do not reach the handler
				t.flying[e.Entry]++
			}
		}
	}
}

// lost forgets entries that will not reach the handler.
func (t *tally) lost(gone func(codec.EntryID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.flying {
		if gone(e) {
			delete(t.flying, e)
		}
	}
}

// source wraps a source so that its members fetch no more than is wanted.
func (t *tally) source(s consumer.Source) consumer.Source {
	if t.most == 0 {
		return s
	}
	return bounded{s, t}
}

type bounded struct {
	consumer.Source
	tally *tally
}

// Origin keeps the labels of the source's metrics.
func (b bounded) Origin() consumer.Origin {
	if o, ok := b.Source.(interface{ Origin() consumer.Origin }); ok {
		return o.Origin()
	}
	return consumer.Origin{}
}

func (b bounded) Join(ctx context.Context, prefix string) (consumer.Member, error) {
	m, err := b.Source.Join(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if owner, ok := m.(interface{ Owns() bool }); ok {
		return boundedOwner{boundedMember{m, b.tally}, owner}, nil
	}
	return boundedMember{m, b.tally}, nil
}

// boundedOwner is a bounded member of a cursor, by which the runtime knows it.
type boundedOwner struct {
	boundedMember
	owner interface{ Owns() bool }
}

func (m boundedOwner) Owns() bool { return m.owner.Owns() }

type boundedMember struct {
	consumer.Member
	tally *tally
}

func (m boundedMember) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	if n = m.tally.room(n); n == 0 {
		tier.Pause(ctx, min(wait, 50*time.Millisecond))
		return nil, nil
	}
	entries, err := m.Member.Read(ctx, n, wait)
	m.tally.took(entries)
	return entries, err
}

func (m boundedMember) TakeOver(ctx context.Context, n, suspects int) (tier.Taken, error) {
	return m.take(n, func(n int) (tier.Taken, error) { return m.Member.TakeOver(ctx, n, suspects) })
}

func (m boundedMember) Due(ctx context.Context, n int) (tier.Taken, error) {
	return m.take(n, func(n int) (tier.Taken, error) { return m.Member.Due(ctx, n) })
}

func (m boundedMember) take(n int, from func(n int) (tier.Taken, error)) (tier.Taken, error) {
	if n = m.tally.room(n); n == 0 {
		return tier.Taken{Done: true, Next: -1}, nil
	}
	taken, err := from(n)
	m.tally.took(taken.Leased)
	return taken, err
}

// Parked is asked of members that can tell, which are those of all sources here.
func (m boundedMember) Parked(ctx context.Context, stay func(context.Context) error) ([]tier.Parked, error) {
	return m.Member.(interface {
		Parked(ctx context.Context, stay func(context.Context) error) ([]tier.Parked, error)
	}).Parked(ctx, stay)
}

func (m boundedMember) Commit(ctx context.Context, entries []tier.Ending) error {
	err := m.Member.Commit(ctx, entries)
	if err == nil {
		aside := map[codec.EntryID]bool{}
		for i := range entries {
			aside[entries[i].Entry] = true
		}
		m.tally.lost(func(e codec.EntryID) bool { return aside[e] })
	}
	return err
}

func (m boundedMember) Sync(ctx context.Context) ([]tier.Held, error) {
	held, err := m.Member.Sync(ctx)
	if err == nil {
		still := map[codec.EntryID]bool{}
		for _, h := range held {
			still[h.Entry] = true
		}
		m.tally.lost(func(e codec.EntryID) bool { return !still[e] })
	}
	return held, err
}

func (m boundedMember) Renew(ctx context.Context, entries []codec.EntryID) ([]codec.EntryID, error) {
	gone, err := m.Member.Renew(ctx, entries)
	for _, g := range gone {
		m.tally.lost(func(e codec.EntryID) bool { return e == g })
	}
	return gone, err
}

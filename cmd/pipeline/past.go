package main

import (
	"context"
	"errors"
	"iter"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// past is what there is of a stream: of all its partitions, in the order of merged.
type past struct {
	addr  tier.Address
	parts []partReader
	whole bool // parts are partitions of addr
}

// openPast opens the history of a stream, with the archive at a store or at that of its policy, and finds its places in it.
func openPast(ctx context.Context, client *tier.Client, addr tier.Address, store string, places ...*place) (*past, error) {
	all, err := addresses(ctx, client, addr)
	if err != nil {
		return nil, err
	}
	if all[0] != addr {
		for _, p := range places {
			if err := p.isTimeOf(ctx, client, addr, all); err != nil {
				return nil, err
			}
		}
		parts, err := partReaders(ctx, client, all, store)
		return &past{addr: addr, parts: parts, whole: true}, err
	}
	r, err := newPartReader(ctx, client, addr, store)
	if err != nil {
		return nil, err
	}
	for i, p := range places {
		if err := errors.Join(p.countBack(ctx, client, addr), p.belongs(ctx, client, addr)); err != nil {
			return nil, err
		}
		if err := p.enter(ctx, r, i == 0); err != nil {
			return nil, err
		}
	}
	return &past{addr: addr, parts: []partReader{r}}, nil
}

// Identity is that of a stream without partitions.
func (p *past) Identity(ctx context.Context) (codec.Identity, error) { return p.parts[0].Identity(ctx) }

// Range yields the messages from one address to another.
func (p *past) Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	if p.whole {
		return merged(ctx, p.parts, from, to)
	}
	return p.parts[0].Range(ctx, from, to)
}

// newest is the address of the newest message, zero when there is none.
func (p *past) newest(ctx context.Context) (at codec.EntryID, err error) {
	for _, part := range p.parts {
		last, err := part.newest(ctx)
		if err != nil {
			return at, err
		}
		if last.Compare(at) > 0 {
			at = last
		}
	}
	if p.whole && !at.IsZero() {
		at = codec.CeilEntry(at.Time()) // others may end later in this millisecond
	}
	return at, nil
}

// onlyOne refuses a stream with partitions, whose messages have no one order of positions.
func (p *past) onlyOne(flag string) error {
	if !p.whole {
		return nil
	}
	return usagef("%s: %s has partitions: replay one after another, as in %s@0", flag, p.addr, p.addr)
}

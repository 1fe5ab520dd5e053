package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// place is a flag that names a place in a stream.
type place struct {
	text  string
	point when.Point
	at    codec.EntryID // of an id, once belongs has asked how its stream derives them
}

func (p *place) flag(cmd *cobra.Command, name, help string) {
	cmd.Flags().Var(&value{kind: "PLACE", set: p.set}, name, help)
}

func (p *place) set(s string) (err error) {
	p.text = s
	p.point, err = when.ParsePoint(s, time.Now())
	return err
}

// countBack counts an AGO back from the server's clock, which is the one that gives
// ids.
func (p *place) countBack(ctx context.Context, client *tier.Client, addr tier.Address) error {
	if _, err := when.ParseDuration(p.text); err != nil {
		return nil // not an AGO
	}
	now, err := client.Now(ctx, addr.LogKey())
	if err == nil {
		p.point, err = when.ParsePoint(p.text, now)
	}
	return err
}

// isTimeOf refuses a place of one partition of a stream, and counts an AGO back.
func (p *place) isTimeOf(ctx context.Context, client *tier.Client, addr tier.Address, all []tier.Address) error {
	if p.text != "" && !p.point.IsTime() {
		return usagef("%s has %d partitions, and %s is of one of them: give a time, or the partition, as in %s@3", addr, len(all), p.text, addr)
	}
	return p.countBack(ctx, client, all[0])
}

// belongs refuses an id of another stream.
func (p *place) belongs(ctx context.Context, client *tier.Client, addr tier.Address) error {
	if p.point.ID.IsZero() {
		return nil
	}
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: addr.String()})
	if err != nil {
		return err
	}
	id, err := r.Identity(ctx)
	if err != nil {
		return err
	}
	at, ok := id.Entry(p.point.ID)
	if !ok {
		return usagef("id %s is not of %s, whose ids begin with %s", p.text, addr, id.Brand)
	}
	p.at = at
	return nil
}

// from is the first address at or after the place; not given, it is the beginning.
func (p *place) from() codec.EntryID {
	switch {
	case !p.at.IsZero():
		return p.at
	case !p.point.ID.IsZero():
		return p.point.ID.ServerEntry() // in the right millisecond
	case p.point.IsTime():
		return codec.FloorEntry(p.point.Time)
	}
	return p.point.Entry
}

// to is the last address at or before the place, which may be a whole day; not given, it is the end.
func (p *place) to() codec.EntryID {
	switch {
	case p.text == "":
		return codec.MaxEntryID
	case p.point.IsTime():
		if p.point.Lasts > 0 {
			return codec.CeilEntry(p.point.Time.Add(p.point.Lasts - time.Millisecond))
		}
		return codec.CeilEntry(p.point.Time)
	}
	return p.from()
}

// ranger reads a part of a stream.
type ranger interface {
	Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error]
}

// enter replaces the message of a pack by its own address; the entry of a pack
// without an index is that of its last message. What is not there stays a bound.
func (p *place) enter(ctx context.Context, r ranger, begins bool) error {
	at := codec.Position{Entry: p.point.Entry, Index: p.point.Index}
	if at.Entry.IsZero() || (at.Index == 0 && !begins) {
		return nil
	}
	record, err := readAt(ctx, r, at)
	switch {
	case err == nil:
		p.point.Entry, p.point.Index = record.Addr, 0
	case at.Index == 0 && (errors.Is(err, stream.ErrNotFound) || errors.Is(err, stream.ErrTrimmed) || errors.Is(err, stream.ErrNoStream)):
		return nil
	}
	return err
}

// readAt reads the message at a position. An address without an index is that of an
// entry, or else that of a message inside a pack.
func readAt(ctx context.Context, r ranger, at codec.Position) (codec.Record, error) {
	record, err := readOne(ctx, r, at.Entry) // of a pack, its last message
	if err != nil || record.Position == at {
		return record, err
	}
	last := record.Position
	switch {
	case last.Entry != at.Entry && at.Index == 0:
		return record, nil
	case last.Entry != at.Entry || at.Index > last.Index:
		return record, fmt.Errorf("%w: %s", stream.ErrNotFound, at)
	}
	at.Entry.Seq -= uint64(last.Index - at.Index)
	return readOne(ctx, r, at.Entry)
}

func readOne(ctx context.Context, r ranger, at codec.EntryID) (codec.Record, error) {
	for record, err := range r.Range(ctx, at, at) {
		return record, err
	}
	return codec.Record{}, fmt.Errorf("%w: %s", stream.ErrNotFound, at)
}

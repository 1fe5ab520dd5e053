package main

import (
	"context"
	"fmt"
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
	if err == nil && (p.point.ID.Brand() != id.Brand || p.point.ID.Node() != id.Node) {
		err = usagef("id %s is not of %s, whose ids begin with %s", p.text, addr, id.Brand)
	}
	return err
}

// from is the first address at or after the place; not given, it is the beginning.
func (p *place) from() codec.EntryID {
	switch {
	case !p.point.ID.IsZero():
		return p.point.ID.ServerEntry()
	case p.point.IsTime():
		return codec.FloorEntry(p.point.Time)
	}
	return p.point.Entry
}

// to is the last address at or before the place; not given, it is the end.
func (p *place) to() codec.EntryID {
	switch {
	case p.text == "":
		return codec.MaxEntryID
	case p.point.IsTime():
		return codec.CeilEntry(p.point.Time)
	}
	return p.from()
}

// readAt reads the message at a position, or at the address of a message inside a
// pack.
func readAt(ctx context.Context, r *stream.Reader, at codec.Position) (codec.Record, error) {
	from := at.Entry
	if at.Index > 0 { // the entry's address is that of the last of its messages
		from.Seq -= min(from.Seq, codec.MaxSeq)
	}
	for record, err := range r.Range(ctx, from, at.Entry) {
		if err != nil {
			return record, err
		}
		if (at.Index > 0 && record.Position == at) || (at.Index == 0 && record.Addr == at.Entry) {
			return record, nil
		}
	}
	return codec.Record{}, fmt.Errorf("%w: %s", stream.ErrNotFound, at)
}

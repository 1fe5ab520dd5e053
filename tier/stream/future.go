package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ahead is how far beyond the server's clock a group may begin: clocks of hosts differ, and a start may be meant as now.
const ahead = time.Minute

// FutureStartError says that a group would begin beyond the stream's end, and more than a minute beyond the server's clock:
// all that is appended until then would be skipped, and nobody told. It matches ErrBadCall.
type FutureStartError struct {
	Group string
	Start codec.EntryID
	End   codec.EntryID // of the stream; zero: nothing was ever appended
	Now   time.Time     // by the server's clock
}

func (e *FutureStartError) Error() string {
	const layout = "2006-01-02T15:04:05.000Z07:00"
	return fmt.Sprintf("stream: group %s: a start at %s (%s) is beyond the stream's end and the server's clock (%s), so that all that comes until then would be skipped: take \"new\" for what is appended from now on, or a time that has come",
		e.Group, e.Start, e.Start.Time().UTC().Format(layout), e.Now.UTC().Format(layout))
}

// Is makes errors.Is(err, ErrBadCall) true.
func (e *FutureStartError) Is(target error) bool { return target == ErrBadCall }

// reachable refuses a start that lies in the future.
func (g *Group) reachable(ctx context.Context, start Start) error {
	if start.kind != startAt {
		return nil
	}
	now, err := g.place.client.Now(ctx, g.place.addr.LogKey())
	if err != nil || start.at.Compare(codec.CeilEntry(now.Add(ahead))) <= 0 {
		return err
	}
	info := Info{Address: g.place.addr}
	if err := info.ask(ctx, g.place.client); err != nil || start.at.Prev().Compare(info.Last) <= 0 {
		return err
	}
	return &FutureStartError{Group: g.cfg.Name, Start: start.at, End: info.Last, Now: now}
}

// startable refuses a start that lies in the future, or in the archive.
func (g *Group) startable(ctx context.Context, start Start) error {
	if err := g.reachable(ctx, start); err != nil {
		return err
	}
	return g.inLog(ctx, start)
}

// creatable is startable for a group that may exist: it keeps its place, whatever start is asked for.
func (g *Group) creatable(ctx context.Context) error {
	err := g.startable(ctx, g.cfg.Start)
	if !errors.Is(err, ErrBadCall) {
		return err
	}
	if _, absent := g.row(ctx); !errors.Is(absent, tier.ErrNoGroup) {
		return absent
	}
	return err
}

package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ArchivedStartError says that a group would begin with what only the archive has: a group is given what the log has, and all
// before would be skipped, and nobody told. It matches ErrBadCall.
type ArchivedStartError struct {
	Stream, Group string
	Start         codec.EntryID
	First         codec.EntryID // of the log; zero: it is empty
}

func (e *ArchivedStartError) Error() string {
	first := "the log is empty"
	if !e.First.IsZero() {
		first = "the log begins at " + e.First.String()
	}
	return fmt.Sprintf("stream: group %s: a start at %s lies in the archive of %s, and a group is given what the log has (%s): begin at the head or later, handle it with a cursor, which reads the archive ('pipeline consume %s --exclusive'), or replay it into another stream ('pipeline replay %s --from %s --to-stream ADDR')",
		e.Group, e.Start, e.Stream, first, e.Stream, e.Stream, e.Start)
}

// Is makes errors.Is(err, ErrBadCall) true.
func (e *ArchivedStartError) Is(target error) bool { return target == ErrBadCall }

// inLog refuses a start below what the log has, when that is archived. Who may not ask is not told.
func (g *Group) inLog(ctx context.Context, start Start) error {
	if start.kind != startAt || g.place.addr.Key != "" {
		return nil
	}
	info := Info{Address: g.place.addr}
	if err := info.ask(ctx, g.place.client); err != nil || info.Length > 0 && info.First.Compare(start.at) <= 0 {
		return err
	}
	is, err := (&Reader{place: g.place}).Border(ctx)
	if errors.Is(err, tier.ErrPermission) || err == nil && (is.Archived.IsZero() || is.Archived.Compare(start.at) < 0) {
		return nil
	}
	if err != nil {
		return err
	}
	return &ArchivedStartError{Stream: g.place.addr.String(), Group: g.cfg.Name, Start: start.at, First: info.First}
}

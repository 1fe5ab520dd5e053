package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Source is where a consumer's messages come from. Join makes one member of it, one incarnation of one process; prefix
// begins its name. A Source that has an Origin method as well gives its metrics and logs their labels.
type Source interface {
	Join(ctx context.Context, prefix string) (Member, error)
}

// Origin names a source in metrics and logs. It is a group or a cursor; the other is empty.
type Origin struct{ Scope, Stream, Group, Cursor string }

// attributes of the logs of a consumer.
func (o Origin) attributes(consumer string) []any {
	of := slog.String("group", o.Group)
	if o.Cursor != "" {
		of = slog.String("cursor", o.Cursor)
	}
	return []any{slog.String("scope", o.Scope), slog.String("stream", o.Stream), of, slog.String("consumer", consumer)}
}

// Member is what a consumer does at its source. It is one interface of many methods because they share one contract, the
// fence: every call that depends on what the member holds is refused whole with tier.ErrFenced, with no effect, when
// entries of it were taken over since its last Sync. The methods are those of [stream.Member], where they are described.
// They are called by several goroutines. Those of a [stream.Owner] mean the same for a cursor.
type Member interface {
	Name() string
	Lease() time.Duration // not shorter than stream.MinLease

	// Read returns up to n new entries, waiting for the first up to wait. A wait that has begun is not cut short. One
	// goroutine calls it, and is through with what it returned before it calls again: the memory may be used again then.
	Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error)
	// TakeOver looks at one page of what is pending and takes up to n entries whose lease has ended, own ones too; at most
	// so many suspects among them, which several consumers have let go of. Taken.Paused says that the source is paused, and
	// is why it is called even where nothing can be taken over: while it says so, nothing is read.
	TakeOver(ctx context.Context, n, suspects int) (tier.Taken, error)
	// Sync learns the member's number and what it holds, at most 4096 entries, the oldest.
	Sync(ctx context.Context) ([]tier.Held, error)

	// Rebuild makes the group again after tier.ErrNoGroup. Checkpoint writes down up to where everything is settled, which
	// is where Rebuild lets it go on.
	Rebuild(ctx context.Context) (tier.Rebuilt, error)
	Checkpoint(ctx context.Context) error

	// Settle and Renew take at most 4096 entries.
	Settle(ctx context.Context, entries []codec.EntryID) (acked int, err error)
	Renew(ctx context.Context, entries []codec.EntryID) (gone []codec.EntryID, err error)
	Release(ctx context.Context, entries []tier.Returned, delay time.Duration) error
	// Commit ends deliveries of which not all was handled, or that have outputs, in one step: what is open is parked until
	// it is due, what is given up goes to the dead letters, outputs are written. An *tier.OutputError refuses the whole
	// call. Due takes up to n parked entries up again.
	Commit(ctx context.Context, entries []tier.Ending) error
	Due(ctx context.Context, n int) (tier.Taken, error)

	// Retire drops members that are silent and hold nothing; Leave this one, when it holds nothing.
	Retire(ctx context.Context) error
	Leave(ctx context.Context) error
}

// parkedTeller is what a Member is, too, whose consumer keeps an order: Parked lists what is parked, of whomever. It is asked
// at the start, and when something may be there, or gone, that the consumer has not seen. That may take longer than a lease:
// stay, which renews what is in flight, is called again and again meanwhile.
type parkedTeller interface {
	Parked(ctx context.Context, stay func(context.Context) error) ([]tier.Parked, error)
}

// aheadReader is what a Member is, too, that can ask for entries while others come, see [stream.Member.ReadAhead].
type aheadReader interface {
	ReadAhead(ctx context.Context, n int, wait time.Duration, next func() int) (leased []tier.Leased, more bool, err error)
}

// Group is a group of a stream as a Source. Joining creates the group if there is none.
func Group(g *stream.Group) Source {
	if g == nil {
		return nil // which New refuses
	}
	return groupSource{g}
}

type groupSource struct{ group *stream.Group }

func (s groupSource) Join(ctx context.Context, prefix string) (Member, error) {
	m, err := s.group.Join(ctx, prefix)
	if err != nil {
		return nil, err // not m: a nil *stream.Member is no nil Member
	}
	return groupMember{m}, nil
}

// groupMember reads into the same memory again: the tracker copies what it is given.
type groupMember struct{ *stream.Member }

func (m groupMember) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	return m.ReadAgain(ctx, n, wait)
}

func (s groupSource) Origin() Origin {
	a := s.group.Address()
	return Origin{Scope: a.Scope, Stream: a.Stream, Group: s.group.Name()}
}

// Exclusive is a cursor as a Source: of all consumers of it one handles messages at a time, the others stand by.
func Exclusive(c *stream.Cursor) Source {
	if c == nil {
		return nil // which New refuses
	}
	return cursorSource{c}
}

type cursorSource struct{ cursor *stream.Cursor }

func (s cursorSource) Join(ctx context.Context, prefix string) (Member, error) {
	o, err := s.cursor.Join(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return cursorMember{o}, nil
}

// cursorMember reads into the same memory again, as groupMember does.
type cursorMember struct{ *stream.Owner }

func (m cursorMember) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	return m.ReadAgain(ctx, n, wait)
}

func (s cursorSource) Origin() Origin {
	a := s.cursor.Address()
	return Origin{Scope: a.Scope, Stream: a.Stream, Cursor: s.cursor.Name()}
}

// originOf is empty for a source that does not tell.
func originOf(s Source) Origin {
	if o, ok := s.(interface{ Origin() Origin }); ok {
		return o.Origin()
	}
	return Origin{}
}

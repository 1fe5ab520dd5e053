package stream

import (
	"context"
	"time"

	"github.com/echomq/pipeline/tier"
)

// maxBlock is how long one request waits on the server. It is not cut off, since an entry given to nobody would be
// stranded; so this is how long the end of a context goes unnoticed.
const maxBlock = time.Second

// Read returns up to n entries that nobody was given yet. It waits on the server for up to wait; when ctx ends meanwhile,
// for a second more at most. After an error, Sync tells what was given all the same.
func (m *Member) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	leased, _, err := m.read(ctx, n, wait, nil, &fetch{})
	return leased, err
}

// ReadAgain is Read for one goroutine that reads again and again, and copies what it keeps: what it returns is good until
// the next call, which uses the same memory for the entries and records (not for their strings and bytes). A consumer's
// garbage is a third less for it.
func (m *Member) ReadAgain(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	leased, _, err := m.ReadAhead(ctx, n, wait, nil)
	return leased, err
}

// LeavePacks has packs left as they are by ReadAgain and ReadAhead from now on, for who decodes them where they are handled: see Pack of
// tier.Leased. It comes before the first of these.
func (m *Member) LeavePacks() { m.again.leavesPacks = true }

// ReadAhead is ReadAgain of who knows what it wants next: when entries begin to come, next is called, and as many more as it says are asked
// for, so that the server is at work while these are decoded and handled. More tells that some were. The next ReadAhead brings
// those in place of others, and waits as it is told to if there are none. After an error nothing is on its way.
func (m *Member) ReadAhead(ctx context.Context, n int, wait time.Duration, next func() int) (leased []tier.Leased, more bool, err error) {
	m.again.clear() // while it waits it holds nothing
	return m.read(ctx, n, wait, next, &m.again)
}

func (m *Member) read(
	ctx context.Context, n int, wait time.Duration, next func() int, into *fetch,
) (leased []tier.Leased, more bool, err error) {
	if n <= 0 {
		return nil, false, nil // the server would take it for no limit
	}
	for {
		more, err := m.feed.ReadAhead(ctx, &into.Page, n, min(wait, maxBlock), next, ">", "XREADGROUP", "GROUP", m.group.cfg.Name, m.name)
		wait -= maxBlock
		switch {
		case err != nil:
			return nil, false, err
		case len(into.Entries) == 0 && wait > 0 && ctx.Err() == nil:
			continue
		case len(into.Entries) == 0:
			return nil, more, nil
		}
		if err := m.decode(ctx, into, nil); err != nil {
			m.feed.Abandon()
			return nil, false, err
		}
		return into.leased, more, nil
	}
}

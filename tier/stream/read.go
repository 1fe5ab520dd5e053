package stream

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// maxBlock is how long one request waits on the server. It is not cut off, since an entry given to nobody would be
// stranded; so this is how long the end of a context goes unnoticed.
const maxBlock = time.Second

// Read returns up to n entries that nobody was given yet. It waits on the server for up to wait; when ctx ends meanwhile,
// for a second more at most. After an error, Sync tells what was given all the same.
func (m *Member) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	return m.read(ctx, n, wait, &fetch{})
}

// ReadAgain is Read for one goroutine that reads again and again, and copies what it keeps: what it returns is good until
// the next call, which uses the same memory for the entries and records (not for their strings and bytes). A consumer's
// garbage is a third less for it.
func (m *Member) ReadAgain(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	m.again.clear() // while it waits it holds nothing
	return m.read(ctx, n, wait, &m.again)
}

func (m *Member) read(ctx context.Context, n int, wait time.Duration, into *fetch) ([]tier.Leased, error) {
	if n <= 0 {
		return nil, nil // the server would take it for no limit
	}
	for {
		reply, err := m.ask(ctx, n, min(wait, maxBlock))
		wait -= maxBlock
		switch {
		case rueidis.IsRedisNil(err) && wait > 0 && ctx.Err() == nil:
			continue
		case rueidis.IsRedisNil(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		if err := into.readReply(reply); err != nil {
			return nil, err
		}
		if err := m.decode(ctx, into, nil); err != nil {
			return nil, err
		}
		return into.leased, nil
	}
}

func (m *Member) ask(ctx context.Context, n int, wait time.Duration) (rueidis.RedisMessage, error) {
	p := m.group.place
	key := p.addr.LogKey()
	read := p.client.B().Xreadgroup().Group(m.group.cfg.Name, m.name).Count(int64(n))
	if wait >= time.Millisecond {
		return p.client.Wait(ctx, key, wait, read.Block(wait.Milliseconds()).Streams().Key(key).Id(">").Build())
	}
	return p.client.Do(ctx, key, read.Streams().Key(key).Id(">").Build())
}

package stream

import (
	"context"
	"fmt"

	"github.com/echomq/pipeline/tier"
)

// Purge deletes all entries of a stream, and nothing else: its ids go on above the old ones, producers that repeat a
// call get their receipts, what AppendOnce has seen it has seen, dead letters stay, and so do the versions of a keyed stream. Its groups stay as well, forget what
// they hold, and go on with what comes next; members at work are refused once. Readers that were behind end with
// ErrTrimmed. It answers what went.
//
// Errors: ErrNoStream, ErrStreamRemoved.
func Purge(ctx context.Context, client *tier.Client, address string) (Removed, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return Removed{}, err
	}
	for range looks {
		going, err := p.purgeable(ctx)
		if err != nil {
			return Removed{}, err
		}
		cursors, err := p.cursorNames(ctx)
		if err != nil {
			return Removed{}, err
		}
		code, entries, err := p.purge(ctx, going.Groups, cursors)
		if err != nil {
			return Removed{}, err
		}
		if code != "changed" {
			going.Entries = entries
			return going, nil
		}
	}
	return Removed{}, fmt.Errorf("stream: purge %s: %w", p.addr, errBusy)
}

// PlanPurge says what Purge would delete, and changes nothing.
func PlanPurge(ctx context.Context, client *tier.Client, address string) (Removed, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return Removed{}, err
	}
	return p.purgeable(ctx)
}

func (p *place) purgeable(ctx context.Context) (Removed, error) {
	if err := p.readable(ctx); err != nil {
		return Removed{}, err
	}
	return p.contents(ctx)
}

func (p *place) purge(ctx context.Context, groups []GroupInfo, cursors []string) (code string, entries int64, err error) {
	keys := []string{p.addr.LogKey(), p.addr.CursorsKey()}
	var names, foreign []string // another program's group has a name that makes no key, and no keys of ours
	for _, g := range groups {
		if tier.CheckName("group", g.Name) != nil {
			foreign = append(foreign, g.Name)
			continue
		}
		names = append(names, g.Name)
	}
	names = append(names, cursors...)
	for _, name := range names {
		keys = append(keys, p.addr.GroupKey(name), p.addr.OwnersKey(name), p.addr.RetryKey(name), p.addr.OpenKey(name))
	}
	m, err := p.client.Run(ctx, tier.Call{Script: purgeScript, Keys: keys, Args: append(names, foreign...)})
	if err != nil {
		return "", 0, err
	}
	return codeAndCount("purge", m, 2)
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Removed is what goes, or went, with Remove and with Purge.
type Removed struct {
	Stream      tier.Address
	Brand       codec.Brand // stays the stream's
	Entries     int64       // of the log; a pack is one
	Bytes       int64       // of memory that the log takes, as the server estimates it; 0: the user may not ask
	Groups      []GroupInfo // as they were
	DeadLetters int64       // of all groups, of those that were deleted before, too; Purge leaves them
	Producers   int         // keys with the receipts of producers; Purge leaves them
	Keys        int         // of a keyed stream, that have a version; Purge leaves them
}

// looks bounds how often a change that needs all groups declared is tried again because there is a new one.
const looks = 10

// errBusy: groups came faster than they could be listed.
var errBusy = errors.New("groups are being made all the time: stop who makes them, and try again")

// Remove deletes a stream and everything that belongs to it: the log, the groups with what they hold, dead letters, and
// what is known of producers. A mark stays in the scope, by which writers, readers and consumers at work end with
// ErrStreamRemoved; a writer that is opened anew makes the stream again, with its old brand. It answers what went. Of a
// stream that is removed already nothing goes, except what an interrupted removal has left over.
//
// Errors: ErrNoStream.
func Remove(ctx context.Context, client *tier.Client, address string) (Removed, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return Removed{}, err
	}
	for range looks {
		going, field, parts, err := p.belongings(ctx)
		if err != nil {
			return Removed{}, err
		}
		if field == "" { // another program's: only a declared stream can be marked as removed
			if _, err := p.declare(ctx, "", ""); err != nil {
				return Removed{}, err
			}
			continue
		}
		code, entries, err := p.remove(ctx, field, going.Groups, parts)
		if err != nil {
			return Removed{}, err
		}
		if code == "ok" {
			going.Entries = entries
			return going, p.sweep(ctx)
		}
	}
	return Removed{}, fmt.Errorf("stream: remove %s: %w", p.addr, errBusy)
}

// PlanRemove says what Remove would delete, and changes nothing.
func PlanRemove(ctx context.Context, client *tier.Client, address string) (Removed, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return Removed{}, err
	}
	going, _, _, err := p.belongings(ctx)
	return going, err
}

// sweep deletes what was written between the list of keys and the removal, unless the stream was made again since.
func (p *place) sweep(ctx context.Context) error {
	field, err := p.field(ctx)
	if err != nil || !strings.HasPrefix(field, tier.GoneMark) {
		return err
	}
	parts, err := p.client.KeysBelow(ctx, p.addr.LogKey())
	if err != nil || len(parts) == 0 {
		return err
	}
	_, _, err = p.remove(ctx, field, nil, parts)
	return err
}

func (p *place) remove(ctx context.Context, field string, groups []GroupInfo, parts []string) (code string, entries int64, err error) {
	args := []string{tier.StreamField(p.addr.Stream), field}
	for _, g := range groups {
		args = append(args, g.Name)
	}
	m, err := p.client.Run(ctx, tier.Call{
		Script: removeScript,
		Keys:   append([]string{tier.ScopeKey(p.addr.Scope), p.addr.LogKey()}, parts...),
		Args:   args,
	})
	if err != nil {
		return "", 0, err
	}
	return codeAndCount("remove", m, 3)
}

func codeAndCount(op string, m rueidis.RedisMessage, parts int) (code string, n int64, err error) {
	reply, err := tier.Parts(op, m, parts)
	if err != nil {
		return "", 0, err
	}
	if code, err = reply[0].ToString(); err != nil {
		return "", 0, err
	}
	n, err = reply[1].AsInt64()
	return code, n, err
}

// belongings counts what belongs to the stream, and lists the keys beside the log; field is what the scope's hash says of
// it. ErrNoStream.
func (p *place) belongings(ctx context.Context) (going Removed, field string, parts []string, err error) {
	if err = p.readable(ctx); err != nil && !errors.Is(err, ErrStreamRemoved) {
		return going, field, nil, err
	}
	if going, err = p.contents(ctx); err != nil {
		return going, field, nil, err
	}
	if field, err = p.field(ctx); err != nil {
		return going, field, nil, err
	}
	declared, _ := parseDeclaration(field)
	going.Brand = declared.brand
	if parts, err = p.client.KeysBelow(ctx, p.addr.LogKey()); err != nil {
		return going, field, nil, err
	}
	for _, key := range parts {
		switch kind, _, _ := strings.Cut(strings.TrimPrefix(key, p.addr.LogKey()+":"), ":"); kind {
		case "pid":
			going.Producers++
		case "key":
			going.Keys++
		case "dead":
			n, err := p.length(ctx, key)
			if err != nil {
				return going, field, nil, err
			}
			going.DeadLetters += n
		}
	}
	for _, g := range going.Groups { // what they write between the list and the removal
		if tier.CheckName("group", g.Name) == nil {
			parts = append(parts, p.addr.GroupKey(g.Name), p.addr.OwnersKey(g.Name), p.addr.RetryKey(g.Name), p.addr.OpenKey(g.Name), p.addr.DeadKey(g.Name))
		}
	}
	slices.Sort(parts)
	return going, field, slices.Compact(parts), nil
}

func (p *place) length(ctx context.Context, key string) (int64, error) {
	m, err := p.client.Do(ctx, key, p.client.B().Xlen().Key(key).Build())
	if err != nil {
		return 0, err
	}
	return m.AsInt64()
}

// contents are the log and its groups.
func (p *place) contents(ctx context.Context) (going Removed, err error) {
	going = Removed{Stream: p.addr}
	info := Info{Address: p.addr}
	if err := info.ask(ctx, p.client); err != nil {
		return going, err
	}
	going.Entries = info.Length
	if id := p.declared.Load(); id != nil {
		going.Brand = id.Brand
	}
	if going.Groups, err = Groups(ctx, p.client, p.addr.String()); err != nil {
		return going, err
	}
	going.Bytes, err = p.memory(ctx)
	return going, err
}

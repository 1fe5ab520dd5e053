package projection

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Info is a version of a projection, or a cursor that is none.
type Info struct {
	Projection string // its name without the version
	Version    int    // 0: it is a cursor that no projection moves
	Live       bool   // readers use it
	stream.CursorInfo
}

// State is the name of the state of a Table, a hash; beside it there may be RankOf of it.
func (i *Info) State() string { return Versioned(i.Projection, i.Version) }

// List lists the versions of the projections of a stream, and its other cursors, by name and version.
//
// Errors: stream.ErrNoStream, stream.ErrStreamRemoved.
func List(ctx context.Context, client *tier.Client, address string) ([]Info, error) {
	addr, err := tier.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	cursors, err := stream.Cursors(ctx, client, address)
	if err != nil {
		return nil, err
	}
	live, err := client.LiveProjections(ctx, addr.Scope)
	if err != nil {
		return nil, err
	}
	list := make([]Info, len(cursors))
	for i, c := range cursors {
		list[i] = infoOf(c, addr.Stream, live)
	}
	slices.SortStableFunc(list, func(a, b Info) int {
		if n := strings.Compare(a.Projection, b.Projection); n != 0 {
			return n
		}
		return a.Version - b.Version
	})
	return list, nil
}

func infoOf(c stream.CursorInfo, of string, live map[string]tier.LiveVersion) Info {
	i := Info{Projection: c.Name, CursorInfo: c}
	if dot := strings.LastIndexByte(c.Name, '.'); dot > 0 {
		is, known := live[c.Name[:dot]]
		n, err := strconv.Atoi(c.Name[dot+1:])
		if known && is.Stream == of && err == nil && n > 0 {
			i.Projection, i.Version, i.Live = c.Name[:dot], n, is.Version == n
		}
	}
	return i
}

// versions of a projection; ErrNoProjection when the wanted one is not among them.
func versions(ctx context.Context, client *tier.Client, address, name string, version int) (all []Info, this Info, err error) {
	all, err = List(ctx, client, address)
	if err != nil {
		return nil, this, err
	}
	all = slices.DeleteFunc(all, func(i Info) bool { return i.Version == 0 || i.Projection != name })
	at := slices.IndexFunc(all, func(i Info) bool { return i.Version == version })
	if at < 0 {
		return nil, this, fmt.Errorf("%w: version %d of %s, of %s", ErrNoProjection, version, name, address)
	}
	return all, all[at], nil
}

// Live is the version of a projection that readers are to use; Versioned makes the name of its state from it.
//
// Errors: ErrNoProjection.
func Live(ctx context.Context, client *tier.Client, scope, name string) (tier.LiveVersion, error) {
	live, err := client.LiveProjections(ctx, scope)
	if err != nil {
		return tier.LiveVersion{}, err
	}
	v, ok := live[name]
	if !ok {
		return v, fmt.Errorf("%w: %s in scope %s", ErrNoProjection, name, scope)
	}
	return v, nil
}

// Switch makes a version the live one. Readers use it from their next call on; look at its lag before.
//
// Errors: ErrNoProjection, those of List.
func Switch(ctx context.Context, client *tier.Client, address, name string, version int) error {
	if _, _, err := versions(ctx, client, address, name, version); err != nil {
		return err
	}
	addr, _ := tier.ParseAddress(address)
	return client.SwitchProjection(ctx, addr.Scope, name, tier.LiveVersion{Stream: addr.Stream, Version: version})
}

// Reset makes a version anew from the head: its owner goes on there, and the first commit deletes the state of a Table, which
// readers see empty and then growing, if it is live. A Store keeps its state and its checkpoint: empty it before. Dead letters
// stay; one that is redriven after it would be folded twice.
//
// Errors: ErrNoProjection, those of List.
func Reset(ctx context.Context, client *tier.Client, address, name string, version int) error {
	return move(ctx, client, address, name, version, func(c *stream.Cursor) error { return c.Reset(ctx, stream.Head()) })
}

// Drop deletes a version with its state; its owner ends. The live one goes only when it is the last. Dead letters stay, and so
// does what a Store holds.
//
// Errors: *LiveError, ErrNoProjection, those of List.
func Drop(ctx context.Context, client *tier.Client, address, name string, version int) error {
	all, this, err := versions(ctx, client, address, name, version)
	if err != nil {
		return err
	}
	if this.Live && len(all) > 1 {
		return &LiveError{Name: name, Version: version}
	}
	addr, _ := tier.ParseAddress(address)
	if err = move(ctx, client, address, name, version, func(c *stream.Cursor) error { return c.Delete(ctx) }); err != nil {
		return err
	}
	if _, err = client.DeleteStates(ctx, addr.Scope, this.State(), RankOf(this.State())); err != nil {
		return err
	}
	if len(all) == 1 {
		return client.ForgetProjection(ctx, addr.Scope, name)
	}
	return nil
}

func move(ctx context.Context, client *tier.Client, address, name string, version int, f func(*stream.Cursor) error) error {
	if _, _, err := versions(ctx, client, address, name, version); err != nil {
		return err
	}
	c, err := stream.NewCursor(client, stream.CursorConfig{Address: address, Name: Versioned(name, version), Start: stream.Head()})
	if err != nil {
		return err
	}
	return f(c)
}

// View reads the live version of a Table.
type View[S any] struct {
	client      *tier.Client
	scope, name string
	codec       codec.Codec[S]
}

// NewView makes a view of a projection. It sends nothing. The codec is that of the table; nil: codec.Msgpack.
func NewView[S any](client *tier.Client, scope, name string, c codec.Codec[S]) (*View[S], error) {
	if err := tier.CheckName("scope", scope); err != nil {
		return nil, err
	}
	if err := tier.CheckName("projection", name); err != nil {
		return nil, err
	}
	if c == nil {
		c = codec.Msgpack[S]()
	}
	return &View[S]{client, scope, name, c}, nil
}

// Get reads the state of a key; false when it has none.
//
// Errors: ErrNoProjection.
func (v *View[S]) Get(ctx context.Context, key string) (state S, ok bool, err error) {
	states, err := v.GetAll(ctx, key)
	state, ok = states[key]
	return state, ok, err
}

// GetAll reads the states of keys at one moment; those that have none are not among them.
//
// Errors: ErrNoProjection.
func (v *View[S]) GetAll(ctx context.Context, keys ...string) (map[string]S, error) {
	live, err := Live(ctx, v.client, v.scope, v.name)
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == schemaField })
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	fields, err := v.client.StateFields(ctx, v.scope, Versioned(v.name, live.Version), keys...)
	if err != nil {
		return nil, err
	}
	states := map[string]S{}
	for i, key := range keys {
		if !fields[i].OK {
			continue
		}
		if states[key], err = decode(v.codec, fields[i].Value); err != nil {
			return nil, fmt.Errorf("state %s, key %.64q: %w", Versioned(v.name, live.Version), key, err)
		}
	}
	return states, nil
}

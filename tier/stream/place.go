package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// place is a stream on a server: its address, and what its ids are derived from once that is known.
type place struct {
	client   *tier.Client
	addr     tier.Address
	mark     string // of the partition that a writer appends to, as it stands behind the brand; else empty
	past     Past   // of a cursor; nil: none
	declared atomic.Pointer[declared]
	siblings sync.Map // address -> *place: streams of the scope that outputs go to
}

func newPlace(client *tier.Client, address string) (*place, error) {
	p, err := newLogPlace(client, address)
	if err == nil && p.addr.Key != "" {
		return nil, fmt.Errorf("%w: %s is a log of another program: it has readers and groups, and a Foreign writes to it", ErrBadCall, p.addr)
	}
	return p, err
}

// newLogPlace is newPlace for what works on a log of another program, too.
func newLogPlace(client *tier.Client, address string) (*place, error) {
	addr, err := tier.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return &place{client: client, addr: addr}, nil
}

// sibling is another stream of the same client, or this one.
func (p *place) sibling(address string) (*place, error) {
	if address == p.addr.String() {
		return p, nil
	}
	if s, ok := p.siblings.Load(address); ok {
		return s.(*place), nil
	}
	s, err := newPlace(p.client, address)
	if err != nil {
		return nil, err
	}
	first, _ := p.siblings.LoadOrStore(address, s)
	return first.(*place), nil
}

// known returns what the stream is declared as, asking the server for it when it is not known yet. ErrNoStream,
// ErrStreamRemoved.
func (p *place) known(ctx context.Context) (declared, error) {
	if d := p.declared.Load(); d != nil {
		return *d, nil
	}
	key := tier.ScopeKey(p.addr.Scope)
	m, err := p.client.Do(ctx, key, p.client.B().Hmget().Key(key).Field(tier.NodeField, tier.StreamField(p.addr.Stream), tier.PartitionsField).Build())
	if err != nil {
		return declared{}, err
	}
	row, err := tier.Texts("HMGET "+key, m, 3)
	if err != nil {
		return declared{}, err
	}
	if row[2] != "" {
		return declared{}, &PartitionError{Stream: p.addr, Have: row[2]}
	}
	if row[1] == "" {
		return declared{}, fmt.Errorf("%w (%s)", ErrNoStream, p.addr)
	}
	said, err := parseDeclaration(row[1])
	switch {
	case said.removed:
		return declared{}, fmt.Errorf("%w (%s)", ErrStreamRemoved, p.addr)
	case err != nil:
		return declared{}, fmt.Errorf("stream: %s: %s: %w", key, p.addr.Stream, err)
	}
	node, err := strconv.Atoi(row[0])
	if err != nil {
		return declared{}, fmt.Errorf("stream: %s: node number %.32q: run 'pipeline check %s'", key, row[0], p.addr.Scope)
	}
	return p.know(said.brand, node, said.kind, said.mark), nil
}

// field is what the scope's hash says of the stream; empty: nothing.
func (p *place) field(ctx context.Context) (string, error) {
	key := tier.ScopeKey(p.addr.Scope)
	m, err := p.client.Do(ctx, key, p.client.B().Hget().Key(key).Field(tier.StreamField(p.addr.Stream)).Build())
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return m.ToString()
}

// readable is known, or a log that another program filled: its entries are foreign. ErrNoStream, ErrStreamRemoved.
func (p *place) readable(ctx context.Context) error {
	_, err := p.known(ctx)
	if !errors.Is(err, ErrNoStream) {
		return err
	}
	key := p.addr.LogKey()
	m, askErr := p.client.Do(ctx, key, p.client.B().Exists().Key(key).Build())
	if askErr != nil {
		return askErr
	}
	if n, askErr := m.AsInt64(); askErr != nil || n == 1 {
		return askErr
	}
	return err
}

// isRemoved is ErrStreamRemoved when the stream is marked so now, whatever is known of it.
func (p *place) isRemoved(ctx context.Context) error {
	field, err := p.field(ctx)
	if err == nil && strings.HasPrefix(field, tier.GoneMark) {
		err = fmt.Errorf("%w (%s)", ErrStreamRemoved, p.addr)
	}
	return err
}

// gone tells a reader that misses history whether that is because the stream was removed.
func (p *place) gone(ctx context.Context, err error) error {
	if errors.Is(err, ErrTrimmed) {
		return cmp.Or(p.isRemoved(ctx), err)
	}
	return err
}

// identify is known for entries that were read just now: the first writer declares the stream before it appends, so when
// it is still undeclared, they are all foreign.
func (p *place) identify(ctx context.Context) error {
	_, err := p.known(ctx)
	if errors.Is(err, ErrNoStream) {
		return nil
	}
	return err
}

// waits is the error of entries that are ours by their bytes though nobody has declared the stream: its scope lost the
// declaration. Given to a handler as foreign, they would be settled as messages of nothing.
func (p *place) waits(entries []codec.Entry) error {
	if p.declared.Load() != nil {
		return nil
	}
	anyBrand := codec.Identity{Brand: "ANY"}
	for i := range entries {
		for _, r := range anyBrand.Records(nil, entries[i]) {
			if !r.Foreign() && r.Err == nil {
				return &tier.Error{Op: "read", Key: tier.ScopeKey(p.addr.Scope), Class: tier.ErrUndeclared, Err: ErrNoStream}
			}
		}
	}
	return nil
}

// identity is that of the stream, as far as it is known: none of one that nobody declared.
func (p *place) identity() (id codec.Identity) {
	if known := p.declared.Load(); known != nil {
		id = known.Identity
	}
	return id
}

// records decodes an entry, after identify. Of a stream that nobody declared, every entry is foreign. Raw fields are
// copied, so that an entry that is kept does not keep its neighbours.
func (p *place) records(dst []codec.Record, e codec.Entry) []codec.Record {
	before := len(dst)
	dst = p.identity().Records(dst, e)
	for i := range dst[before:] {
		r := &dst[before+i]
		r.Fields = slices.Clone(r.Fields)
	}
	return dst
}

// firstMessage is the address of the first message of an entry, for whoever is told to go on there: that of a pack lies below the entry's.
// One that is gone by now, or none, keeps its own.
func (p *place) firstMessage(ctx context.Context, entry codec.EntryID) (codec.EntryID, error) {
	if entry.IsZero() {
		return entry, nil
	}
	if err := p.identify(ctx); err != nil {
		return entry, err
	}
	key, at := p.addr.LogKey(), entry.String()
	m, err := p.client.Do(ctx, key, p.client.B().Xrange().Key(key).Start(at).End(at).Build())
	if err != nil {
		return entry, err
	}
	entries, err := entriesOf(m)
	if err == nil && len(entries) > 0 {
		entry = p.records(nil, entries[0])[0].Addr
	}
	return entry, err
}

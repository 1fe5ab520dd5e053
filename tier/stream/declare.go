package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// place is a stream on a server: its address, and what its ids are derived from once that is known.
type place struct {
	client   *tier.Client
	addr     tier.Address
	identity atomic.Pointer[codec.Identity]
}

func newPlace(client *tier.Client, address string) (*place, error) {
	addr, err := tier.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return &place{client: client, addr: addr}, nil
}

// declare makes the stream known in its scope, with the given brand or, when empty, with the one that it had when this
// process last saw it, or one made of its name, or any that is free. An exclusive stream keeps its brand: what was minted
// may be in the log.
func (p *place) declare(ctx context.Context, brand codec.Brand, exclusive bool) (codec.Identity, error) {
	known := p.identity.Load()
	if exclusive && brand == "" && known != nil {
		brand = known.Brand
	}
	node, err := p.client.ScopeNode(ctx, p.addr.Scope)
	if err != nil {
		return codec.Identity{}, err
	}
	args := []string{strconv.Itoa(node), p.addr.Stream, orderOf(exclusive)}
	switch {
	case brand != "":
		args = append(args, "1", string(brand))
	case known != nil:
		args = append(append(args, "0", string(known.Brand)), brandsOf(p.addr.Stream)...)
	default:
		args = append(append(args, "0"), brandsOf(p.addr.Stream)...)
	}
	m, err := p.client.Run(ctx, tier.Call{Script: declareScript, Keys: []string{tier.ScopeKey(p.addr.Scope)}, Args: args})
	if err != nil {
		return codec.Identity{}, err
	}
	reply, err := tier.Texts("declare", m, 2)
	if err != nil {
		return codec.Identity{}, err
	}
	switch reply[0] {
	case "brand":
		return codec.Identity{}, &BrandDiffersError{Stream: p.addr.String(), Have: codec.Brand(reply[1]), Ask: brand}
	case "taken":
		return codec.Identity{}, &BrandTakenError{Brand: brand, Stream: reply[1]}
	case "order":
		return codec.Identity{}, &OrderDiffersError{Stream: p.addr.String(), Have: reply[1], Ask: orderOf(exclusive)}
	case "full":
		return codec.Identity{}, fmt.Errorf("%w (scope %s)", ErrBrandsExhausted, p.addr.Scope)
	case "node":
		return codec.Identity{}, &tier.NodeConflictError{Scope: p.addr.Scope, Number: node, Registered: reply[1]}
	}
	id := codec.Identity{Brand: codec.Brand(reply[1]), Node: node, Exclusive: exclusive}
	p.identity.Store(&id)
	return id, nil
}

// known returns the identity, asking the server for it when it is not known yet. ErrNoStream, ErrStreamRemoved.
func (p *place) known(ctx context.Context) (codec.Identity, error) {
	if id := p.identity.Load(); id != nil {
		return *id, nil
	}
	key := tier.ScopeKey(p.addr.Scope)
	m, err := p.client.Do(ctx, key, p.client.B().Hmget().Key(key).Field(tier.NodeField, tier.StreamField(p.addr.Stream)).Build())
	if err != nil {
		return codec.Identity{}, err
	}
	row, err := tier.Texts("HMGET "+key, m, 2)
	if err != nil {
		return codec.Identity{}, err
	}
	if row[1] == "" {
		return codec.Identity{}, fmt.Errorf("%w (%s)", ErrNoStream, p.addr)
	}
	declared, err := parseDeclaration(row[1])
	switch {
	case declared.removed:
		return codec.Identity{}, fmt.Errorf("%w (%s)", ErrStreamRemoved, p.addr)
	case err != nil:
		return codec.Identity{}, fmt.Errorf("stream: %s: %s: %w", key, p.addr.Stream, err)
	}
	node, err := strconv.Atoi(row[0])
	if err != nil {
		return codec.Identity{}, fmt.Errorf("stream: %s: node number %.32q: run 'pipeline check %s'", key, row[0], p.addr.Scope)
	}
	id := codec.Identity{Brand: declared.brand, Node: node, Exclusive: declared.exclusive}
	p.identity.Store(&id)
	return id, nil
}

// declaration is what the scope's hash says of a stream: "<brand>" or "<brand> exclusive", after "-" when it was removed.
type declaration struct {
	brand              codec.Brand
	exclusive, removed bool
}

// parseDeclaration reads a declaration. What else it holds is of a newer version, or was written by hand: an error, with
// the rest as far as it can be told.
func parseDeclaration(text string) (d declaration, err error) {
	text, d.removed = strings.CutPrefix(text, tier.GoneMark)
	text, d.exclusive = strings.CutSuffix(text, tier.ExclusiveMark)
	if d.brand, err = codec.ParseBrand(text); err != nil {
		d.brand = codec.Brand(text)
		err = fmt.Errorf("declared as %.32q, which this version cannot read: upgrade it, or run 'pipeline check': %w", text, err)
	}
	return d, err
}

func declarationOf(id codec.Identity) string {
	if id.Exclusive {
		return string(id.Brand) + tier.ExclusiveMark
	}
	return string(id.Brand)
}

func orderOf(exclusive bool) string {
	if exclusive {
		return strings.TrimSpace(tier.ExclusiveMark)
	}
	return ""
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

// records decodes an entry, after identify. Of a stream that nobody declared, every entry is foreign.
func (p *place) records(dst []codec.Record, e codec.Entry) []codec.Record {
	var id codec.Identity
	if known := p.identity.Load(); known != nil {
		id = *known
	}
	return id.Records(dst, e)
}

// brandsOf lists brands for a stream, best first: three letters of the name in their order, then its first letter with
// any two.
func brandsOf(stream string) []string {
	var letters []byte
	for _, c := range []byte(strings.ToUpper(stream)) {
		if 'A' <= c && c <= 'Z' && len(letters) < 10 {
			letters = append(letters, c)
		}
	}
	var brands []string
	for i := range letters {
		for j := i + 1; j < len(letters); j++ {
			for k := j + 1; k < len(letters); k++ {
				brands = append(brands, string([]byte{letters[i], letters[j], letters[k]}))
			}
		}
	}
	first := byte('S')
	if len(letters) > 0 {
		first = letters[0]
	}
	for a := byte('A'); a <= 'Z'; a++ {
		for b := byte('A'); b <= 'Z'; b++ {
			brands = append(brands, string([]byte{first, a, b}))
		}
	}
	return brands
}

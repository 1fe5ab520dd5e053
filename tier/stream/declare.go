package stream

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

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

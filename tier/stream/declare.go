package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// declare makes the stream known in its scope, with the given brand or, when empty, with the one that it had when this
// process last saw it, or one made of its name, or any that is free. An exclusive stream keeps its brand: what was minted
// may be in the log.
func (p *place) declare(ctx context.Context, brand codec.Brand, kind string) (declared, error) {
	known := p.declared.Load()
	if kind == exclusive && brand == "" && known != nil {
		brand = known.Brand
	}
	node, err := p.client.ScopeNode(ctx, p.addr.Scope)
	if err != nil {
		return declared{}, err
	}
	args := []string{strconv.Itoa(node), p.addr.Stream, strings.TrimSpace(kind + p.mark)}
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
		return declared{}, err
	}
	reply, err := tier.Texts("declare", m, 2)
	if err != nil {
		return declared{}, err
	}
	switch reply[0] {
	case "brand":
		return declared{}, &BrandDiffersError{Stream: p.addr.String(), Have: codec.Brand(reply[1]), Ask: brand}
	case "taken":
		return declared{}, &BrandTakenError{Brand: brand, Stream: reply[1]}
	case "kind":
		have, _, _ := strings.Cut(" "+reply[1], tier.PartitionMark)
		return declared{}, &KindDiffersError{Stream: p.addr.String(), Have: strings.TrimSpace(have), Ask: kind}
	case "partitioned", "partition":
		return declared{}, &PartitionError{Stream: p.addr, Have: reply[1], Ask: strings.TrimSpace(p.mark)}
	case "full":
		return declared{}, fmt.Errorf("%w (scope %s)", ErrBrandsExhausted, p.addr.Scope)
	case "node":
		return declared{}, &tier.NodeConflictError{Scope: p.addr.Scope, Number: node, Registered: reply[1]}
	}
	return p.know(codec.Brand(reply[1]), node, kind, p.mark), nil
}

// Kinds of streams, as they stand behind the brand; a plain one has none.
var (
	exclusive = strings.TrimSpace(tier.ExclusiveMark)
	keyed     = strings.TrimSpace(tier.KeyedMark)
)

// declared is a stream as its scope knows it: what its ids are derived from, and of which kind it is.
type declared struct {
	codec.Identity
	kind string
	mark string // of a partition, as it stands behind the brand and the kind
}

// text is the declaration, which every append compares.
func (d *declared) text() string {
	if d.kind == "" {
		return string(d.Brand) + d.mark
	}
	return string(d.Brand) + " " + d.kind + d.mark
}

// know keeps what the scope says of the stream.
func (p *place) know(brand codec.Brand, node int, kind, mark string) declared {
	d := declared{codec.Identity{Brand: brand, Node: node, Exclusive: kind == exclusive}, kind, mark}
	p.declared.Store(&d)
	return d
}

// declaration is what the scope's hash says of a stream: the brand, before a mark when it has a kind and one when it is in a
// partition, after "-" when it was removed.
type declaration struct {
	brand   codec.Brand
	kind    string
	mark    string // of a partition
	removed bool
}

// parseDeclaration reads a declaration. What else it holds is of a newer version, or was written by hand: an error, with
// all of it for the brand.
func parseDeclaration(text string) (d declaration, err error) {
	text, d.removed = strings.CutPrefix(text, tier.GoneMark)
	whole := text
	if i := strings.Index(text, tier.PartitionMark); i >= 0 {
		text, d.mark = text[:i], text[i:]
	}
	brand := text
	for _, mark := range []string{tier.ExclusiveMark, tier.KeyedMark} {
		if before, ok := strings.CutSuffix(text, mark); ok {
			brand, d.kind = before, strings.TrimSpace(mark)
		}
	}
	if d.brand, err = codec.ParseBrand(brand); err != nil {
		d.brand, d.kind = codec.Brand(text), ""
	}
	if d.mark != "" {
		err = errors.Join(err, tier.CheckPartitionMark(d.mark))
	}
	if err != nil {
		err = fmt.Errorf("declared as %.32q, which this version cannot read: upgrade it, or run 'pipeline check': %w", whole, err)
	}
	return d, err
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

package stream

import (
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Minter gives ids under host order, each above the one before. *codec.Mint is one.
type Minter interface {
	Next(brand codec.Brand) (codec.ID, error)
}

// mintFor gives the batch its ids, once: they are what makes another sending harmless.
func (s *sender) mintFor(b *batch) error {
	if b.minted != nil {
		return nil
	}
	ids := make([]codec.ID, len(b.messages))
	for i := range ids {
		var err error
		if ids[i], err = s.mint.Next(b.identity.Brand); err != nil {
			return fmt.Errorf("stream: append: not sent: %w", err)
		}
		if ids[i].Brand() != b.identity.Brand {
			return fmt.Errorf("%w: the mint gave %s to a stream whose brand is %s", ErrBadCall, ids[i], b.identity.Brand)
		}
		if i > 0 && ids[i].Compare(ids[i-1]) <= 0 {
			return fmt.Errorf("%w (the mint gave %s after %s)", ErrNonMonotonic, ids[i], ids[i-1])
		}
	}
	b.minted = ids
	return nil
}

// exclusiveCall makes the script call of an exclusive writer.
func (b *batch) exclusiveCall(addr tier.Address) tier.Call {
	args := make([]string, 0, 2+3*len(b.messages))
	args = append(args, tier.StreamField(addr.Stream), b.identity.text())
	for i, m := range b.messages {
		args = append(args, b.minted[i].HostEntry().String(), b.minted[i].String(), m)
	}
	return tier.Call{Script: exclusiveScript, Keys: []string{addr.LogKey(), tier.ScopeKey(addr.Scope)}, Args: args}
}

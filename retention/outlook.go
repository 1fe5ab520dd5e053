package retention

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Part is some of a log.
type Part struct {
	Entries int64
	Bytes   int64 // about, by what an entry weighs on average; 0: not known
}

// Claim is who needs entries of a log, and how many: all from the first on.
type Claim struct {
	stream.Holder
	Age time.Duration // of its first entry, by the server's clock
	Part
}

// Outlook is what the sweeper will do to a stream, if nothing changes.
type Outlook struct {
	stream.Holdings
	Policy stream.Retention
	Goes   Part // by the policy, and nobody holds it; of a policy that is not exact, up to a node of the server's less
	Held   Part // of what the policy lets go, and somebody holds; without what is dropped
	Drops  Part // above the hard cap, whoever holds it
	Claims []Claim
	// AtLeast: there are more entries than were counted, so that these numbers may be too low.
	AtLeast bool
}

// countMost is how many entries Look counts: a second of the server's time, in pieces of a millisecond.
const countMost = 1_000_000

// Look tells what the sweeper will do to a stream, and who holds what. It changes nothing.
//
// Errors: stream.ErrRetention, stream.ErrNoStream, stream.ErrStreamRemoved.
func Look(ctx context.Context, client *tier.Client, address string) (Outlook, error) {
	policy, err := stream.RetentionOf(ctx, client, address)
	if err != nil {
		return Outlook{}, err
	}
	h, err := stream.HoldingsOf(ctx, client, address)
	if err != nil {
		return Outlook{}, err
	}
	ids := questions(policy, &h)
	counts, err := stream.CountBelow(ctx, client, address, countMost, ids...)
	if err != nil {
		return Outlook{}, err
	}
	below := map[codec.EntryID]int64{}
	for i, id := range ids {
		below[id] = counts[i]
	}
	return Foresee(policy, h, below), nil
}

// old is the first id that the age leaves.
func old(policy stream.Retention, now time.Time) codec.EntryID {
	if policy.MaxAge == 0 {
		return codec.EntryID{}
	}
	return codec.FloorEntry(now.Add(-policy.MaxAge))
}

// questions are the ids below which entries are to be counted, ascending: those behind the last entry need no counting.
func questions(policy stream.Retention, h *stream.Holdings) []codec.EntryID {
	ids := []codec.EntryID{old(policy, h.Now)}
	for _, holder := range h.Holders {
		ids = append(ids, holder.First)
	}
	ids = slices.DeleteFunc(ids, func(id codec.EntryID) bool { return id.Compare(h.First) <= 0 || id.Compare(h.Last) > 0 })
	slices.SortFunc(ids, codec.EntryID.Compare)
	return slices.Compact(ids)
}

// Foresee says what becomes of a log, given how many of its entries lie below the ids that matter: where the age ends, and what each
// holder needs first. It is pure.
func Foresee(policy stream.Retention, h stream.Holdings, counted map[codec.EntryID]int64) Outlook {
	o := Outlook{Holdings: h, Policy: policy}
	below := func(id codec.EntryID) int64 {
		switch {
		case h.Length == 0 || id.Compare(h.First) <= 0:
			return 0
		case id.Compare(h.Last) > 0:
			return h.Length
		}
		n := counted[id]
		o.AtLeast = o.AtLeast || n >= countMost
		return min(n, h.Length)
	}
	part := func(entries int64) Part {
		if h.Length == 0 {
			return Part{}
		}
		return Part{entries, int64(float64(h.Bytes) * float64(entries) / float64(h.Length))}
	}
	trim := Decide(policy, h.Length, h.Bytes)
	free := h.Length // what nobody holds
	floor, held := h.Floor()
	if held {
		free = below(floor.First)
	}
	wanted := below(old(policy, h.Now))
	if trim.Keep >= 0 {
		wanted = max(wanted, h.Length-trim.Keep)
	}
	if trim.Settled && held {
		wanted = max(wanted, free)
	}
	goes := min(wanted, free)
	var drops int64
	if policy.HardCap > 0 {
		drops = max(0, h.Length-goes-policy.HardCap)
	}
	o.Goes, o.Drops, o.Held = part(goes), part(drops), part(max(0, wanted-goes-drops))
	for _, holder := range h.Holders {
		n := h.Length - below(holder.First)
		if holder.First.Compare(h.First) < 0 { // what there is no more, it does not need
			holder.First = h.First
		}
		if n > 0 {
			o.Claims = append(o.Claims, Claim{holder, max(0, h.Now.Sub(holder.First.Time())), part(n)})
		}
	}
	slices.SortStableFunc(o.Claims, func(a, b Claim) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Why, b.Why))
	})
	return o
}

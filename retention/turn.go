package retention

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// turnCalls is how many calls a stream gets in its turn, to trim and again to drop: 160,000 entries, and 4,000 that are held.
const turnCalls = 16

// Swept is what a stream's turn came to.
type Swept struct {
	Address tier.Address
	Policy  stream.Retention
	stream.Trimmed
	Retired []stream.Retired // groups that were deleted, since they were dead
	Over    int64            // entries above the bound that stay, since somebody holds them
	HeldAge time.Duration    // of the first entry that somebody needs; 0: there is none
	Err     error
}

// turns gives each stream of the scope that has a policy its turn. An error ends them: the right was lost, or the server failed
// before any.
func (s *Sweeper) turns(ctx context.Context) iter.Seq2[Swept, error] {
	return func(yield func(Swept, error) bool) {
		list, err := stream.Retentions(ctx, s.client, s.cfg.Scope)
		if err != nil {
			yield(Swept{}, err)
			return
		}
		for _, r := range list {
			if s.cfg.Stream != "" && s.cfg.Stream != r.Address.Stream {
				continue
			}
			swept := s.turn(ctx, r)
			if err := ending(ctx, swept.Err); err != nil {
				yield(swept, err)
				return
			}
			s.metrics.turn(&swept)
			if swept.Err != nil {
				s.client.Logger().Error("stream not swept: nothing more of it goes until that is mended", slog.String("stream", r.Address.String()), slog.Any("err", swept.Err))
			}
			for _, g := range swept.Retired {
				s.client.Logger().Warn("dead group retired", slog.String("stream", r.Address.String()), slog.String("group", g.Group),
					slog.Int64("pending", g.Pending), slog.Int64("parked", g.Parked))
			}
			for group, n := range swept.Dropped {
				s.client.Logger().Error("entries dropped above the hard cap, which were not settled",
					slog.String("stream", r.Address.String()), slog.String("group", group), slog.Int64("entries", n))
			}
			if !yield(swept, nil) {
				return
			}
		}
	}
}

// ending is what ends all turns: that of ctx, or that the right was lost.
func ending(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, stream.ErrSweepLost) {
		return nil
	}
	return cmp.Or(ctx.Err(), err)
}

// turn trims one stream, and drops what is above its hard cap.
func (s *Sweeper) turn(ctx context.Context, r stream.Retained) Swept {
	swept := Swept{Address: r.Address, Policy: r.Policy, Err: r.Err}
	if r.Err != nil {
		return swept
	}
	h, err := stream.HoldingsOf(ctx, s.client, r.Address.String())
	if err != nil {
		return swept.ended(err)
	}
	trim := Decide(r.Policy, h.Length, h.Bytes)
	swept.Left = h.Length
	if err := s.retire(ctx, &swept, &h); err != nil {
		return swept.ended(err)
	}
	err = s.repeat(ctx, &swept, func() (stream.Trimmed, error) { return s.right.Trim(ctx, r.Address.Stream, r.Policy, trim) })
	if err == nil && !swept.More && r.Policy.HardCap > 0 && swept.Left > r.Policy.HardCap {
		err = s.repeat(ctx, &swept, func() (stream.Trimmed, error) { return s.right.Drop(ctx, r.Address.Stream, r.Policy) })
	}
	if trim.Keep >= 0 && !swept.More {
		swept.Over = max(0, swept.Left-trim.Keep)
	}
	if floor, held := h.Floor(); held && swept.Left > 0 && floor.First.Compare(h.Last) <= 0 {
		swept.HeldAge = max(0, h.Now.Sub(floor.First.Time()))
	}
	return swept.ended(err)
}

// retire deletes the groups that are dead by the policy, of those that hold something.
func (s *Sweeper) retire(ctx context.Context, swept *Swept, h *stream.Holdings) error {
	if swept.Policy.Retire == 0 {
		return nil
	}
	asked := map[string]bool{}
	for _, holder := range h.Holders {
		if asked[holder.Name] || holder.Name == "" || holder.First.Compare(h.Last) > 0 {
			continue
		}
		asked[holder.Name] = true
		retired, group, err := s.right.Retire(ctx, swept.Address.Stream, swept.Policy, holder.Name)
		if err != nil {
			return err
		}
		if retired {
			swept.Retired = append(swept.Retired, group)
		}
	}
	return nil
}

// repeat calls until nothing more goes, or the turn is over. The right is kept meanwhile.
func (s *Sweeper) repeat(ctx context.Context, swept *Swept, call func() (stream.Trimmed, error)) error {
	for range turnCalls {
		if time.Since(s.taken) > s.cfg.Lease/3 {
			free, err := s.take(ctx)
			if err != nil {
				return err
			}
			if free > 0 {
				return stream.ErrSweepLost
			}
		}
		got, err := call()
		if err != nil {
			return err
		}
		swept.add(got)
		if !got.More {
			break
		}
	}
	return nil
}

// ended notes how the turn ended. That the policy has changed meanwhile, or the stream was removed, is no failure: the next
// turn goes by what there is then.
func (s Swept) ended(err error) Swept {
	switch {
	case errors.Is(err, stream.ErrPolicyChanged), errors.Is(err, stream.ErrStreamRemoved), errors.Is(err, stream.ErrNoStream):
		s.More = false
	default:
		s.Err = err
	}
	return s
}

func (s *Swept) add(t stream.Trimmed) {
	s.Entries += t.Entries
	s.More, s.Left = t.More, t.Left
	for name, n := range t.Dropped {
		if s.Dropped == nil {
			s.Dropped = map[string]int64{}
		}
		s.Dropped[name] += n
	}
}

// joined adds a turn to those of its stream before.
func joined(list []Swept, next Swept) []Swept {
	for i := range list {
		if list[i].Address == next.Address {
			before := list[i]
			list[i] = next
			list[i].Retired = append(before.Retired, next.Retired...)
			list[i].Trimmed = before.Trimmed
			list[i].add(next.Trimmed)
			return list
		}
	}
	return append(list, next)
}

package replay

import (
	"context"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// A Hydrate holds so many keys, or bytes of values, before it writes them.
const (
	latestKeys  = 10_000
	latestBytes = 8 << 20
)

// Hydrated is what a Hydrate has done.
type Hydrated struct {
	Messages int           // that were read
	Keyless  int           // of these, those without a key, foreign and undecodable ones
	Written  int           // values that were put in the place of older ones
	Last     codec.EntryID // address of the last message that was read
}

// Hydrate puts the newest value of each key, the data of its newest message in the window, into a hash: by put, which is
// stream.Hydrate on the hash that is meant. The newest stays, whatever is put there meanwhile, and whatever was interrupted: it can be run again. Done, if it is
// not nil, is told after each call. There is no pace.
func (r *Replay) Hydrate(ctx context.Context, put func(context.Context, []stream.Latest) (int, error), done func(Hydrated)) (h Hydrated, err error) {
	latest, bytes := map[string]stream.Latest{}, 0
	flush := func() error {
		list := make([]stream.Latest, 0, len(latest))
		for _, l := range latest {
			list = append(list, l)
		}
		slices.SortFunc(list, func(a, b stream.Latest) int { return a.At.Compare(b.At) })
		n, err := put(ctx, list)
		h.Written += n
		if err == nil && done != nil {
			done(h)
		}
		clear(latest)
		bytes = 0
		return err
	}
	for record, err := range r.selected(ctx, r.cfg.From) {
		if err != nil {
			return h, err
		}
		h.Messages++
		if h.Last = record.Addr; record.Foreign() || record.Err != nil || record.Key == "" {
			h.Keyless++
			continue
		}
		bytes += record.Size()
		latest[record.Key] = stream.Latest{Key: record.Key, At: record.Addr, Value: record.Data}
		if len(latest) == latestKeys || bytes > latestBytes {
			if err := flush(); err != nil {
				return h, err
			}
		}
	}
	return h, flush()
}

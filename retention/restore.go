package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// RestoreConfig says what goes back into a log.
type RestoreConfig struct {
	// Address is "scope/stream".
	Address string
	// Archive of the stream.
	Archive *archive.Reader
	// From is where to begin, in a log that has no entries. Zero: with what the archive has, or what follows the log's newest.
	From codec.EntryID
	// Progress is told how many entries there are beside the log. Nil: nobody is.
	Progress func(entries int64)
}

// Restore puts entries of the archive that the log has lost back into it, with their ids: those above the newest that it still has, up
// to the archive's last. It ends there and nowhere before, for a log with a hole would be read as if it were whole.
type Restore struct {
	cfg RestoreConfig
	to  *stream.Restoration

	Log               stream.Info   // before: how many entries, the last id that it had given
	First             codec.EntryID // that goes back, at least; zero: nothing does
	Last              codec.EntryID
	Entries, Messages int64
}

// PolicyError says that the stream's policy would let go at once what goes back.
type PolicyError struct {
	Stream string
	Word   string // of the policy
	Do     string // that helps, beside another policy
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("retention: the policy of %s, %s, would let go at once what is restored: set one that keeps it first, 'pipeline retention set %s'%s", e.Stream, e.Word, e.Stream, e.Do)
}

// PlanRestore looks at what there is to restore. Nothing changes.
//
// Errors: those of stream.NewRestoration; *PolicyError; *stream.GapError where the archive lacks entries, or entries went above its last;
// *archive.DamageError.
func PlanRestore(ctx context.Context, client *tier.Client, cfg RestoreConfig) (*Restore, error) {
	to, err := stream.NewRestoration(ctx, client, cfg.Address)
	if err != nil {
		return nil, err
	}
	r := &Restore{cfg: cfg, to: to, Log: to.Log()}
	all, err := cfg.Archive.Segments(ctx)
	if err != nil || len(all.List) == 0 {
		return r, err
	}
	from := cfg.From
	if newest := to.Newest(); !newest.IsZero() {
		if from.Compare(newest.Next()) > 0 {
			return nil, fmt.Errorf("%w: %s has entries up to %s: what is restored begins behind them", stream.ErrBadCall, cfg.Address, newest)
		}
		from = newest.Next()
	}
	last := all.Last()
	if last.Compare(from) < 0 {
		return r, nil
	}
	if err := r.lost(ctx, client, last); err != nil {
		return nil, err
	}
	if err := r.count(ctx, from); err != nil || r.Entries == 0 {
		return r, err
	}
	now, err := client.Now(ctx, tier.ScopeKey(r.Log.Address.Scope))
	if err == nil {
		err = refused(to.Policy(), cfg.Address, now, r.First, r.Log.Length+r.Entries)
	}
	return r, err
}

// lost is a gap between the archive's last entry and what the log goes on with.
func (r *Restore) lost(ctx context.Context, client *tier.Client, last codec.EntryID) error {
	live, err := stream.NewReader(client, stream.ReaderConfig{Address: r.cfg.Address})
	if err != nil {
		return err
	}
	is, err := live.Border(ctx)
	if err == nil && is.Lost.Compare(last.Next()) > 0 {
		err = &stream.GapError{Stream: r.cfg.Address, From: last.Next(), First: is.Lost}
	}
	return err
}

// count counts what goes back, from an entry on: of the segment that this lies in by its entries, of those above by the manifest.
func (r *Restore) count(ctx context.Context, from codec.EntryID) error {
	for s, err := range r.cfg.Archive.Unbroken(ctx, from, codec.MaxEntryID) {
		if err != nil {
			return err
		}
		if s.First.Compare(from) >= 0 {
			r.counted(s.First, s.Last, s.Entries, s.Messages)
			continue
		}
		for e, err := range r.cfg.Archive.Entries(ctx, from, s.Last) {
			if err != nil {
				return err
			}
			r.counted(e.ID, e.ID, 1, int64(len(e.Of.Records(nil, e.Entry))))
		}
	}
	return nil
}

func (r *Restore) counted(first, last codec.EntryID, entries, messages int64) {
	if r.Entries == 0 {
		r.First = first
	}
	r.Last, r.Entries, r.Messages = last, r.Entries+entries, r.Messages+messages
}

// refused is why a policy lets go at once what goes back.
func refused(p stream.Retention, address string, now time.Time, first codec.EntryID, length int64) error {
	switch {
	case p.Settled:
		return &PolicyError{Stream: address, Word: "settled"}
	case p.MaxBytes > 0:
		return &PolicyError{Stream: address, Word: "max-bytes"}
	case p.MaxAge > 0 && first.Time().Before(now.Add(-p.MaxAge)):
		return &PolicyError{address, "max-age", ", or begin later, --from"}
	case p.MaxLength > 0 && length > p.MaxLength:
		return &PolicyError{address, "max-length", ", or begin later, --from"}
	case p.HardCap > 0 && length > p.HardCap:
		return &PolicyError{address, "hard-cap", ", or begin later, --from"}
	}
	return nil
}

// A batch of entries on their way beside the log.
const (
	restoreEntries = 500
	restoreBytes   = 1 << 20
)

// Run restores what was planned. Cut off, it is planned and run again, and goes on where it was; what it has done it does not do again.
//
// Errors: those of stream.Restoration.
func (r *Restore) Run(ctx context.Context) error {
	from := r.First
	if there := r.to.Staged(); there.Length > 0 {
		if r.Entries > 0 && there.First == r.First && there.Last.Compare(r.Last) <= 0 {
			from = there.Last.Next()
		} else if err := r.to.Discard(ctx); err != nil {
			return err
		}
	}
	if r.Entries == 0 {
		return nil
	}
	if err := r.stage(ctx, from); err != nil {
		return err
	}
	if there := r.to.Staged(); there.Length != r.Entries {
		return errors.Join(fmt.Errorf("retention: the archive of %s gave %d entries, and has %d by its manifest: 'pipeline archive verify %s' says what is damaged", r.cfg.Address, there.Length, r.Entries, r.cfg.Address), r.to.Discard(ctx))
	}
	return r.to.Place(ctx)
}

func (r *Restore) stage(ctx context.Context, from codec.EntryID) error {
	var batch []codec.Entry
	var had *codec.Identity
	bytes := 0
	flush := func() error {
		err := r.to.Stage(ctx, batch)
		batch, bytes = batch[:0], 0
		if r.cfg.Progress != nil {
			r.cfg.Progress(r.to.Staged().Length)
		}
		return err
	}
	for e, err := range r.cfg.Archive.Entries(ctx, from, r.Last) {
		if err == nil && (had == nil || e.Of != *had) {
			had = &e.Of
			err = r.to.Declare(ctx, e.Of)
		}
		if err == nil && len(batch) > 0 && (len(batch) == restoreEntries || bytes > restoreBytes) {
			err = flush()
		}
		if err != nil {
			return err
		}
		batch = append(batch, e.Entry)
		for _, text := range e.Fields {
			bytes += len(text)
		}
	}
	return flush()
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Restoration puts entries that a log has lost back into it, with the ids that they had: above the newest that it still has, all of them,
// while nobody appends. Stage puts them beside the log, in their order, Place into it. Until then nobody sees them; a log without entries
// gets all at once, so that no reader finds it with a hole. What Stage has put there stays for a day: a restoration that was cut off goes on behind it.
type Restoration struct {
	place    *place
	policy   Retention
	declared *declared // nil: the stream is not
	log      Info
	newest   codec.EntryID // of the log
	staged   Info
	placed   codec.EntryID // the last that is in the log again; zero: none
}

// What restoring refuses. Nothing has changed then, unless it says so.
var (
	// ErrRestoreKeyed: the versions of a keyed stream cannot be made right from its entries alone.
	ErrRestoreKeyed = errors.New("stream: a keyed stream is not restored, since the versions of its keys would not be: replay its archive into a new one")
	// ErrRestoreUnsettled: a group was given entries that the log has no more.
	ErrRestoreUnsettled = errors.New("stream: a group was given entries that the log has lost, and has not settled them: start its consumers until they have found out, or reset it to the first entry, and restore again")
	// ErrRestoreMoved: the log has given an id since it was looked at, or what was staged has gone.
	ErrRestoreMoved = errors.New("stream: the log has changed since the restoration began: stop its writers, and restore again")
	// ErrRestoreLarge: an entry of another program, with thousands of fields.
	ErrRestoreLarge = errors.New("stream: an entry has more fields than a script can hand on: begin the restoration above it")
)

// IdentityError says that a stream's ids would be others than those that its entries had.
type IdentityError struct {
	Stream    string
	Have, Had codec.Identity
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("stream: %s gives ids of brand %s, node %d; the entries had brand %s, node %d: their ids would be others; replay them into a stream, which gives them new ones",
		e.Stream, e.Have.Brand, e.Have.Node, e.Had.Brand, e.Had.Node)
}

// NewRestoration looks at what the log of a stream has. The stream need not be declared.
//
// Errors: ErrStreamRemoved, ErrRestoreKeyed.
func NewRestoration(ctx context.Context, client *tier.Client, address string) (*Restoration, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return nil, err
	}
	r := &Restoration{place: p}
	d, err := p.known(ctx)
	switch {
	case errors.Is(err, ErrNoStream):
		text, err := hashField(ctx, client, tier.ScopeKey(p.addr.Scope), tier.PartitionField)
		if err == nil && text != "" {
			var part tier.Partition
			part, err = tier.ParsePartition(text)
			p.mark = part.Declaration()
		}
		if err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case d.kind == keyed:
		return nil, fmt.Errorf("%w (%s)", ErrRestoreKeyed, p.addr)
	default:
		r.declared = &d
	}
	if r.policy, err = RetentionOf(ctx, client, address); err != nil {
		return nil, err
	}
	if r.staged, err = r.describe(ctx, p.addr.RestoreKey()); err != nil {
		return nil, err
	}
	if r.log, err = r.describe(ctx, p.addr.LogKey()); err != nil {
		return nil, err
	}
	if r.newest, err = r.end(ctx); err != nil {
		return nil, err
	}
	if r.log.Last.IsZero() { // it may have been there before
		var mark string
		if mark, err = hashField(ctx, client, tier.ScopeKey(p.addr.Scope), tier.TopField(p.addr.Stream)); err == nil && mark != "" {
			r.log.Last, err = codec.ParseEntryID(mark)
		}
	}
	return r, err
}

// describe asks what there is under a key.
func (r *Restoration) describe(ctx context.Context, key string) (Info, error) {
	info := Info{Address: r.place.addr}
	m, err := r.place.client.Run(ctx, tier.Call{Script: describeScript, Keys: []string{key}})
	if err != nil {
		return info, err
	}
	parts, err := tier.Parts("describe", m, 6)
	if err != nil {
		return info, err
	}
	info.take(parts)
	return info, nil
}

// end is the last entry that the log has.
func (r *Restoration) end(ctx context.Context) (codec.EntryID, error) {
	key := r.place.addr.LogKey()
	m, err := r.place.client.Do(ctx, key, r.place.client.B().Xrevrange().Key(key).End("+").Start("-").Count(1).Build())
	if err != nil {
		return codec.EntryID{}, err
	}
	entries, err := m.AsXRangeSlices()
	if err != nil || len(entries) == 0 {
		return codec.EntryID{}, err
	}
	return codec.ParseEntryID(entries[0].ID)
}

// Newest is the last entry that the log has; zero: none.
func (r *Restoration) Newest() codec.EntryID { return r.newest }

// Log is what the log had: how many entries, and the last id that it had given.
func (r *Restoration) Log() Info { return r.log }

// Policy of the stream, as it was read: it holds while Place works, or that is refused.
func (r *Restoration) Policy() Retention { return r.policy }

// Staged is what an earlier restoration left beside the log.
func (r *Restoration) Staged() Info { return r.staged }

// Discard takes away what is staged.
func (r *Restoration) Discard(ctx context.Context) error {
	key := r.place.addr.RestoreKey()
	_, err := r.place.client.Do(ctx, key, r.place.client.B().Del().Key(key).Build())
	if err == nil {
		r.staged = Info{}
	}
	return err
}

// Declare declares the stream as it was, or compares: the ids of its entries are to be what they were.
//
// Errors: *IdentityError; those of Writer.Declare.
func (r *Restoration) Declare(ctx context.Context, had codec.Identity) error {
	if had.Brand == "" { // its entries are foreign, and nothing is known of their ids
		return &IdentityError{Stream: r.place.addr.String(), Had: had}
	}
	if r.declared == nil {
		kind := ""
		if had.Exclusive {
			kind = exclusive
		}
		d, err := r.place.declare(ctx, had.Brand, kind)
		if err != nil {
			return err
		}
		r.declared = &d
	}
	if r.declared.Identity != had {
		return &IdentityError{r.place.addr.String(), r.declared.Identity, had}
	}
	return nil
}

// What one write of Stage and one step of Place hold at most, but one entry at least.
const (
	restoreEntries = 500
	restoreBytes   = 1 << 20
	restoreFields  = 4000           // texts of an entry
	restoreKept    = 24 * time.Hour // what is staged
)

// Stage puts entries beside the log, in the order of their ids, above those that are there.
//
// Errors: ErrRestoreLarge, and none of this and the following is there; ErrRestoreMoved.
func (r *Restoration) Stage(ctx context.Context, entries []codec.Entry) error {
	key := r.place.addr.RestoreKey()
	for len(entries) > 0 {
		call, n := tier.Call{Script: stageScript, Keys: []string{key}, Args: []string{r.staged.Last.String(), "", millis(restoreKept)}}, 0
		for bytes := 0; n < len(entries) && n < restoreEntries && (n == 0 || bytes < restoreBytes); n++ {
			e := entries[n]
			if len(e.Fields) > restoreFields {
				return fmt.Errorf("%w (%s, entry %s)", ErrRestoreLarge, r.place.addr, e.ID)
			}
			call.Args = append(append(call.Args, e.ID.String(), strconv.Itoa(len(e.Fields))), e.Fields...)
			for _, text := range e.Fields {
				bytes += len(text)
			}
		}
		last := entries[n-1].ID
		call.Args[1] = last.String()
		m, err := r.place.client.Run(ctx, call)
		if err != nil {
			return err
		}
		if code, err := m.ToString(); err != nil || code != "ok" {
			return errors.Join(err, fmt.Errorf("%w (%s)", ErrRestoreMoved, r.place.addr))
		}
		r.staged.Last = last
		r.staged.Length += int64(n)
		entries = entries[n:]
	}
	return nil
}

// Place puts what is staged into the log, of a stream that was declared. Again, it does nothing.
//
// Errors: ErrRestoreMoved, which says so when some is in the log; ErrRestoreUnsettled, ErrPolicyChanged, ErrNoStream.
func (r *Restoration) Place(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = r.placeSlice(ctx); err != nil {
			return err
		}
	}
	return nil
}

// placeSlice is one step of Place: more says that it was not the last.
func (r *Restoration) placeSlice(ctx context.Context) (more bool, err error) {
	p := r.place
	if r.declared == nil {
		return false, fmt.Errorf("%w (%s)", ErrNoStream, p.addr)
	}
	m, err := p.client.Run(ctx, tier.Call{
		Script: restoreScript, Keys: []string{tier.ScopeKey(p.addr.Scope), p.addr.LogKey(), p.addr.RestoreKey()},
		Args: []string{
			strconv.Itoa(r.declared.Node), tier.StreamField(p.addr.Stream), r.declared.text(), tier.RetentionField(p.addr.Stream), r.policy.String(),
			r.log.Last.String(), r.staged.Last.String(), strconv.FormatInt(r.staged.Length, 10), strconv.Itoa(restoreEntries), strconv.Itoa(restoreBytes),
		},
	})
	if err != nil {
		return false, err
	}
	reply, err := tier.Parts("restore", m, 3)
	if err != nil {
		return false, err
	}
	switch code, _ := reply[0].ToString(); code {
	case "ok":
		r.placed = entryID(reply[2])
		return number(reply[1]) > 0, nil
	case "policy":
		err = ErrPolicyChanged
	case "undeclared":
		err = ErrNoStream
	case "pending":
		group, _ := reply[2].ToString()
		return false, fmt.Errorf("%w (%s, group %s, %d entries)", ErrRestoreUnsettled, p.addr, group, number(reply[1]))
	default:
		err = ErrRestoreMoved
	}
	if !r.placed.IsZero() {
		return false, fmt.Errorf("%w (%s: entries up to %s are back, those above it and up to %s are in the archive only)", err, p.addr, r.placed, r.staged.Last)
	}
	return false, fmt.Errorf("%w (%s)", err, p.addr)
}

package stream

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Versioned is a message of a keyed stream with its key's version, from 1.
type Versioned struct {
	Version uint64
	codec.Record
}

// keyEntries is how many messages of a key one call reads; it ends before, with the message that passes pageBytes.
const keyEntries = 256

// KeyTrimmedError ends a read of a key whose next message is gone. It matches ErrTrimmed.
type KeyTrimmedError struct {
	Stream  string
	Key     string
	Version uint64 // that was to be read next
	First   uint64 // from which on to read what is left; 0: nothing
}

func (e *KeyTrimmedError) Error() string {
	if e.First == 0 {
		return fmt.Sprintf("stream: %s: key %.64q: version %d and all that follow have been trimmed: state that was folded before is in snapshots only, the archive or nowhere", e.Stream, e.Key, e.Version)
	}
	return fmt.Sprintf("stream: %s: key %.64q: version %d has been trimmed: read on from version %d, which is left", e.Stream, e.Key, e.Version, e.First)
}

// Is makes errors.Is(err, ErrTrimmed) true.
func (e *KeyTrimmedError) Is(target error) bool { return target == ErrTrimmed }

// ReadKey yields the messages of a key of a keyed stream in the order of their versions, from one on (0 is 1), to the newest
// as it is when it gets there. Of a key without messages, and above its version, there are none. It reads up to 256 messages
// at a time, 1 MiB as a rule.
//
// An error ends it: ErrNotKeyed, ErrNoStream, ErrStreamRemoved; *KeyTrimmedError, which matches ErrTrimmed and says what is
// left, when the next message is gone; a *TrimmedError when the server lost the key in between.
func (r *Reader) ReadKey(ctx context.Context, key string, from uint64) iter.Seq2[Versioned, error] {
	return func(yield func(Versioned, error) bool) {
		if err := r.keyed(ctx, key); err != nil {
			yield(Versioned{}, err)
			return
		}
		from = max(1, from)
		for begun := false; ; begun = true {
			p, err := r.keyPage(ctx, key, from)
			if err == nil && begun && p.version+1 < from {
				err = &TrimmedError{Stream: r.place.addr.String(), Lost: true}
			}
			if err != nil {
				yield(Versioned{}, r.place.gone(ctx, err))
				return
			}
			for i := range p.entries {
				for _, record := range r.records(nil, p.entries[i]) {
					if !yield(Versioned{from, record}, nil) {
						return
					}
				}
				from++
			}
			switch {
			case p.gone:
				yield(Versioned{}, r.place.gone(ctx, &KeyTrimmedError{Stream: r.place.addr.String(), Key: key, Version: from, First: p.first}))
				return
			case from > p.version:
				return
			}
		}
	}
}

// keyPage is a page of a key's messages.
type keyPage struct {
	entries []codec.Entry
	version uint64 // of the key
	gone    bool   // the message after the page
	first   uint64 // that is left then, 0: none
}

func (r *Reader) keyPage(ctx context.Context, key string, from uint64) (p keyPage, err error) {
	m, err := r.place.client.Run(ctx, tier.Call{
		Script: readKeyScript,
		Keys:   []string{r.place.addr.LogKey(), r.place.addr.IndexKey(key)},
		Args:   []string{strconv.FormatUint(from, 10), strconv.Itoa(keyEntries), strconv.Itoa(pageBytes)},
	})
	if err != nil {
		return p, err
	}
	reply, err := tier.Parts("read_key", m, 3)
	if err != nil {
		return p, err
	}
	if p.entries, err = entriesOf(reply[0]); err != nil {
		return p, err
	}
	if p.version, err = reply[1].AsUint64(); err != nil {
		return p, err
	}
	first, err := reply[2].ToString()
	if err == nil && first != "" {
		p.gone = true
		p.first, err = strconv.ParseUint(first, 10, 64)
	}
	return p, err
}

// Version is a key's version in a keyed stream: how many messages of it there ever were, trimmed ones too; 0 of a new one.
//
// Errors: those of ReadKey.
func (r *Reader) Version(ctx context.Context, key string) (uint64, error) {
	version, _, err := r.indexed(ctx, key, "-1", "-1", false)
	return version, err
}

// VersionAt is the address at which a key's message of this version stands, or stood: it outlives the message. ErrNotFound
// when there never was such a message.
func (r *Reader) VersionAt(ctx context.Context, key string, version uint64) (codec.EntryID, error) {
	at := strconv.FormatUint(version, 10)
	found, addr, err := r.indexed(ctx, key, at, at, true)
	if err == nil && found == 0 {
		err = fmt.Errorf("%w: version %d of key %.64q in %s", ErrNotFound, version, key, r.place.addr)
	}
	return addr, err
}

// indexed reads one row of a key's index, zeros when there is none.
func (r *Reader) indexed(ctx context.Context, key, from, to string, byScore bool) (version uint64, addr codec.EntryID, err error) {
	if err := r.keyed(ctx, key); err != nil {
		return 0, addr, err
	}
	index := r.place.addr.IndexKey(key)
	zrange := r.place.client.B().Zrange().Key(index).Min(from).Max(to)
	cmd := zrange.Withscores().Build
	if byScore {
		cmd = zrange.Byscore().Withscores().Build
	}
	m, err := r.place.client.Do(ctx, index, cmd())
	if err != nil {
		return 0, addr, err
	}
	rows, err := m.AsZScores()
	if err != nil || len(rows) == 0 {
		return 0, addr, err
	}
	addr, err = codec.ParseEntryID(rows[0].Member)
	return uint64(rows[0].Score), addr, err
}

// keyed refuses what cannot be read by key.
func (r *Reader) keyed(ctx context.Context, key string) error {
	if key == "" || len(key) > codec.MaxKey {
		return fmt.Errorf("%w: key %.64q: 1 to %d bytes", ErrBadCall, key, codec.MaxKey)
	}
	d, err := r.place.known(ctx)
	if err == nil && d.kind != keyed {
		err = fmt.Errorf("%w (%s)", ErrNotKeyed, r.place.addr)
	}
	return err
}

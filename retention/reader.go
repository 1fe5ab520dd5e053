package retention

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// GapPolicy is what a Reader does where the log has no more what it was to read next.
type GapPolicy uint8

const (
	FromArchive GapPolicy = iota // reads it from the archive, and ends with a *stream.GapError where that has it not
	Skip                         // as FromArchive, but goes on behind a gap, in the archive or in the log, and tells Skipped
	Stop                         // ends with a *stream.GapError, and does not look into the archive
)

// Archive is what a Reader reads the archive by: an archive.Reader.
type Archive interface {
	Segments(ctx context.Context) (archive.Segments, error)
	Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error]
}

// ReaderConfig says what a Reader reads. Address is needed.
type ReaderConfig struct {
	// Address is "scope/stream".
	Address string
	// Archive has what the log has no more, with the same Upcasts. Nil: there is none.
	Archive Archive
	// Upcasts are those of a stream.ReaderConfig.
	Upcasts codec.Upcasts
	// OnGap is what to do where the log has no more what was to be read next. Default FromArchive.
	OnGap GapPolicy
	// Skipped is told of what was left out, with OnGap Skip. Nil: nobody is.
	Skipped func(*stream.GapError)
}

func (c *ReaderConfig) validate() error {
	if c.OnGap > Stop {
		return fmt.Errorf("%w: OnGap %d: FromArchive, Skip or Stop", stream.ErrBadCall, c.OnGap)
	}
	return nil
}

// Reader reads a stream as one, whatever of it lies in the archive and whatever in the log: each message once, ascending, none left
// out, while the border moves. It leaves no trace. It is safe for concurrent use.
//
// From the beginning, or from what the log has no more, all that the archive has comes from the archive, though the log may have some of it still. A loop holds a page of it, or a row group of the archive and the one after it.
type Reader struct {
	cfg     ReaderConfig
	address tier.Address
	live    *stream.Reader
	log     func(msg string, args ...any)
}

// NewReader checks the configuration. It reads nothing.
func NewReader(client *tier.Client, cfg ReaderConfig) (*Reader, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	live, err := stream.NewReader(client, stream.ReaderConfig{Address: cfg.Address, Upcasts: cfg.Upcasts})
	if err != nil {
		return nil, err
	}
	address, _ := tier.ParseAddress(cfg.Address)
	return &Reader{cfg, address, live, client.Logger().Warn}, nil
}

// Identity is that of stream.Reader.
func (r *Reader) Identity(ctx context.Context) (codec.Identity, error) { return r.live.Identity(ctx) }

// Range yields the messages from one address to another, both included, ascending, as stream.Reader.Range does. The zero
// EntryID is the beginning of what there is.
//
// An error ends it: those of stream.Reader.Range, *stream.GapError in place of *stream.TrimmedError; those of archive.Reader.Range;
// *archive.BehindError when the archive ends below what the server says that it has.
func (r *Reader) Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		(&passage{Reader: r, next: from, to: to}).read(ctx, yield)
	}
}

// Window yields the messages from t0 to t1 by the server's clock, both milliseconds included.
func (r *Reader) Window(ctx context.Context, t0, t1 time.Time) iter.Seq2[codec.Record, error] {
	return r.Range(ctx, codec.FloorEntry(t0), codec.CeilEntry(t1))
}

// Since yields the messages from t on, to the end as it is when it gets there.
func (r *Reader) Since(ctx context.Context, t time.Time) iter.Seq2[codec.Record, error] {
	return r.Range(ctx, codec.FloorEntry(t), codec.MaxEntryID)
}

// Tail yields the messages from an address on and goes on with what is appended, until ctx ends, as stream.Reader.Tail does.
func (r *Reader) Tail(ctx context.Context, from codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		(&passage{Reader: r, next: from, to: codec.MaxEntryID, follow: true}).read(ctx, yield)
	}
}

// ByKey yields the messages of Range that have a key. It reads them all.
func (r *Reader) ByKey(ctx context.Context, key string, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		for record, err := range r.Range(ctx, from, to) {
			if (err != nil || record.Key == key && !record.Foreign()) && !yield(record, err) {
				return
			}
		}
	}
}

// Get finds a message by its id. Errors: as stream.Reader.Get, ErrGap for ErrTrimmed.
func (r *Reader) Get(ctx context.Context, id codec.ID) (codec.Record, error) {
	identity, err := r.Identity(ctx)
	if err != nil {
		return codec.Record{}, err
	}
	at, ok := identity.Entry(id)
	if ok {
		for record, err := range r.Range(ctx, at, at) {
			if err != nil || record.ID == id {
				return record, err
			}
		}
	}
	return codec.Record{}, fmt.Errorf("%w: %s in %s", stream.ErrNotFound, id, r.address)
}

// Last returns the newest n messages, ascending, what the log has no more of them from the archive; they are all in memory at once.
func (r *Reader) Last(ctx context.Context, n int) ([]codec.Record, error) {
	live, err := r.live.Last(ctx, n)
	if err != nil || len(live) >= n || r.cfg.Archive == nil {
		return live, err
	}
	end := codec.MaxEntryID
	if len(live) > 0 {
		end = live[0].Addr
	}
	segments, err := r.cfg.Archive.Segments(ctx)
	if err != nil {
		return nil, err
	}
	missing, from := int64(n-len(live)), codec.EntryID{} // below the first entry of a segment, if that is a pack, are its messages
	for _, s := range slices.Backward(segments.List) {
		if missing <= 0 {
			from = s.Last.Next()
			break
		}
		if s.Last.Compare(end) < 0 {
			missing -= s.Messages
		}
	}
	var before []codec.Record // twice as many at most
	for record, err := range r.cfg.Archive.Range(ctx, from, segments.Last()) {
		if err != nil {
			return nil, err
		}
		if record.Addr.Compare(end) >= 0 {
			break
		}
		if len(before) == 2*(n-len(live)) {
			before = append(before[:0], before[n-len(live):]...)
		}
		before = append(before, record)
	}
	return append(before[max(0, len(before)+len(live)-n):], live...), nil
}

// Newest is the address of the newest message, in the log or in the archive; zero: there is none.
func (r *Reader) Newest(ctx context.Context) (addr codec.EntryID, err error) {
	last, err := r.Last(ctx, 1)
	if len(last) > 0 {
		addr = last[0].Addr
	}
	return addr, err
}

// errEnough ends a loop whose caller takes no more.
var errEnough = errors.New("retention: enough")

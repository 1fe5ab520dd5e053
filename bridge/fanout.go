package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// fanout is a log as a source of one consumer, which has all messages from a place on. Nothing is written down at the server:
// what was read and not settled is held here.
type fanout struct {
	addr   tier.Address
	reader *stream.Reader
	start  stream.Start
	log    *slog.Logger

	from    codec.EntryID     // the place
	records chan codec.Record // from there on; closed when there will be none
	failure error             // why; nil: the subscription has ended
}

// readAhead is how many records wait for the consumer beside those that it has, and the page that they are of.
const readAhead = 128

func newFanout(client *tier.Client, addr tier.Address, start stream.Start, log *slog.Logger) (*fanout, error) {
	reader, err := stream.NewReader(client, stream.ReaderConfig{Address: addr.String()})
	return &fanout{addr: addr, reader: reader, start: start, log: log, records: make(chan codec.Record, readAhead)}, err
}

// begin finds the place.
func (f *fanout) begin(ctx context.Context) (err error) {
	f.from, err = f.reader.Place(ctx, f.start)
	return err
}

// follow reads until ctx ends. What was trimmed before it was read is lost to this subscription, which goes on behind it; of a log that was
// lost, or removed, and made again, it reads all.
func (f *fanout) follow(ctx context.Context) {
	defer close(f.records)
	for from := f.from; ; {
		err := f.tail(ctx, from)
		gap := (*stream.TrimmedError)(nil)
		if !errors.As(err, &gap) {
			f.failure = err
			return
		}
		f.log.Error("messages went before this subscription had read them", slog.String("stream", f.addr.String()), slog.Any("err", err))
		from = gap.First
	}
}

// tail passes records on until ctx ends, which is no error.
func (f *fanout) tail(ctx context.Context, from codec.EntryID) error {
	for record, err := range f.reader.Tail(ctx, from) {
		if err != nil {
			return err
		}
		record.Position = codec.Position{Entry: record.Addr} // one of a pack stands alone here
		select {
		case f.records <- record:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// Join makes the one member.
func (f *fanout) Join(_ context.Context, prefix string) (consumer.Member, error) {
	return &listener{fanout: f, name: prefix, held: map[codec.EntryID]tier.Leased{}, parked: map[codec.EntryID]time.Time{}}, nil
}

// Origin names the source in metrics and logs.
func (f *fanout) Origin() consumer.Origin {
	return consumer.Origin{Scope: f.addr.Scope, Stream: f.addr.Stream, Group: "(fan-out)"}
}

package stream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Chosen is what of a log is being archived. The zero EntryID in To: nothing is.
type Chosen struct {
	From, To codec.EntryID // entries of the segment, both included
	Mark     codec.EntryID // up to which the archive has the stream
	Top      codec.EntryID // last id that the log had given
}

// Choose chooses the segment that is archived next: the entries above the mark, as the caller knows it, up to one that is at least settle old. When one is
// chosen already, that is the answer, and so it is until Mark has passed it: whoever comes next archives the same
// entries. Without `to` it only asks.
//
// Errors: as for Trim.
func (s *Sweep) Choose(ctx context.Context, stream string, policy Retention, mark, to codec.EntryID, settle time.Duration) (Chosen, error) {
	end := ""
	if !to.IsZero() {
		end = to.String()
	}
	reply, err := s.segment(ctx, chooseSegmentScript, stream, policy, mark.String(), end, millis(settle))
	if err != nil {
		return Chosen{}, err
	}
	top, err := reply[4].ToArray()
	if err != nil || len(top) != 1 {
		return Chosen{}, tier.Wrap("choose_segment", tier.Address{Scope: s.scope, Stream: stream}.LogKey(), err)
	}
	return Chosen{entryID(reply[1]), entryID(reply[2]), entryID(reply[3]), entryID(top[0])}, nil
}

// Mark says that the archive has the stream up to an entry: what is below it may go. The log's next id is above it, too; moved says that
// it would not have been, since the log has lost its end. Top is the log's last id before the caller looked whether the archive has all up to
// there: who lost its end may have given ids below the entry since.
//
// Errors: as for Trim; ErrLogMoved.
func (s *Sweep) Mark(ctx context.Context, stream string, policy Retention, last, top codec.EntryID) (moved bool, err error) {
	reply, err := s.segment(ctx, markSegmentScript, stream, policy, last.String(), top.String())
	if err != nil {
		return false, err
	}
	return number(reply[2]) > 0, nil
}

// segment runs a script about the archive of a stream.
func (s *Sweep) segment(ctx context.Context, script *tier.Script, stream string, policy Retention, args ...string) ([]rueidis.RedisMessage, error) {
	p, err := newPlace(s.client, tier.Address{Scope: s.scope, Stream: stream}.String())
	if err != nil {
		return nil, err
	}
	keys := []string{tier.ScopeKey(s.scope), tier.SweeperKey(s.scope), p.addr.LogKey(), p.addr.RetentionKey()}
	if script == markSegmentScript {
		keys = append(keys, p.addr.ArchivedKey())
	}
	m, err := s.client.Run(ctx, tier.Call{
		Script: script, Keys: keys, Args: append([]string{s.owner, s.held(), tier.RetentionField(stream), policy.String()}, args...),
	})
	if err != nil {
		return nil, err
	}
	reply, changed, err := swept(script, p, m)
	if changed {
		return nil, fmt.Errorf("%w (%s)", ErrLogMoved, p.addr)
	}
	return reply, err
}

// Upto finds the entry that so many entries of a log, from above one on and below another, end with, and how many they are. It reads a few at a time: of an
// entry's size on average, it has about a MiB of the server's memory at once. The zero EntryID: there are none.
func Upto(ctx context.Context, client *tier.Client, address string, above, below codec.EntryID, entries, size int64) (last codec.EntryID, n int64, err error) {
	p, err := newPlace(client, address)
	if err != nil {
		return last, 0, err
	}
	last = above
	for n < entries {
		page := min(countPage, entries-n, max(1, pageBytes/max(1, size)))
		m, err := client.Run(ctx, tier.Call{
			Script: countBelowScript, Keys: []string{p.addr.LogKey()}, Args: []string{"(" + last.String(), "(" + below.String(), strconv.FormatInt(page, 10)},
		})
		if err != nil {
			return last, n, err
		}
		reply, err := tier.Parts("count_below", m, 2)
		if err != nil {
			return last, n, err
		}
		if number(reply[0]) > 0 {
			last = entryID(reply[1])
		}
		n += number(reply[0])
		if number(reply[0]) < page {
			break
		}
	}
	if n == 0 {
		last = codec.EntryID{}
	}
	return last, n, nil
}

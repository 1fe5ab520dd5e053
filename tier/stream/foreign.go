package stream

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Foreign is a log of another program, which is appended to in that program's form: entries of any fields, with ids that the
// server makes. It is safe for concurrent use. Nothing is known of its writers: an append whose reply is lost may stand in the
// log, and appended again it stands there twice.
type Foreign struct {
	client *tier.Client
	key    string
}

// foreignAtOnce is how many entries go in one write.
const foreignAtOnce = 500

// NewForeign is the log under the key. It sends nothing.
func NewForeign(client *tier.Client, key string) (*Foreign, error) {
	if _, err := tier.ParseAddress(tier.KeyAddress(key)); err != nil {
		return nil, err
	}
	return &Foreign{client, key}, nil
}

// Append appends entries, each name, value, name, value ..., one after another. Others may append in between. The log is made if
// there is none. If maxLen is above 0, what is older than about so many entries is trimmed, whoever needs it. ErrBadCall comes before anything
// is sent.
//
// After an error ids has a place for each entry, zero for one that is not known to be in the log; tier.OutcomeUnknown says whether such a
// one may be. Up to 500 go in one write, and one of them that the server refuses does not hold up those behind it: a full server may have room again.
func (f *Foreign) Append(ctx context.Context, entries [][]string, maxLen int64) (ids []codec.EntryID, err error) {
	for i, fields := range entries {
		if len(fields) == 0 || len(fields)%2 != 0 {
			return nil, fmt.Errorf("%w: entry %d has %d names and values: want pairs, and one at least", ErrBadCall, i, len(fields))
		}
	}
	ids = make([]codec.EntryID, len(entries))
	for begin := 0; begin < len(entries) && err == nil; begin += foreignAtOnce {
		err = f.write(ctx, entries[begin:min(begin+foreignAtOnce, len(entries))], maxLen, ids[begin:])
	}
	return ids, err
}

// write appends entries in one write. Its error is one of unknown outcome, if there is one.
func (f *Foreign) write(ctx context.Context, entries [][]string, maxLen int64, ids []codec.EntryID) (failed error) {
	cmds := make([]rueidis.Completed, len(entries))
	for i, fields := range entries {
		cmds[i] = f.add(fields, maxLen)
	}
	for i, r := range f.client.DoEach(ctx, f.key, cmds...) {
		id, err := "", r.Err
		if err == nil {
			id, err = r.Message.ToString()
		}
		if err == nil {
			ids[i], err = codec.ParseEntryID(id)
		}
		if failed == nil || tier.OutcomeUnknown(err) && !tier.OutcomeUnknown(failed) {
			failed = err
		}
	}
	return failed
}

func (f *Foreign) add(fields []string, maxLen int64) rueidis.Completed {
	args := f.client.B().Arbitrary("XADD").Keys(f.key)
	if maxLen > 0 {
		args = args.Args("MAXLEN", "~", strconv.FormatInt(maxLen, 10))
	}
	return args.Args("*").Args(fields...).Build()
}

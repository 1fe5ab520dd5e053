package stream

import (
	"context"
	"iter"
	"strconv"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// What a walk counts on, in the words of page.lua.
const (
	claimNone  = "none"  // nothing
	claimStart = "start" // nothing was ever removed from `from` on
	claimSeen  = "seen"  // the entry `from` was there at the last look
	claimTail  = "tail"  // all before `from` was read when `added` entries had been added
)

// How large pages are. The server answers a plain XRANGE with as many entries as it was asked for, whatever they weigh,
// so the number follows what entries weighed of late. Only the script stops by bytes, at three times the price; it is for
// what a plain page cannot prove.
const (
	firstEntries = 16       // of the first page, whose entries nothing is known of
	pageEntries  = 512      // of one page, at most
	pageBytes    = 1 << 20  // that a page has as a rule
	pageMost     = 16 << 20 // that it has if each entry is as large as the largest of late
	pageStep     = 16       // entries that the script reads at a time
)

// walk goes through a log by pages. It holds the first entry of the next page back, so that a trim in between is noticed.
type walk struct {
	place  *place
	from   codec.EntryID
	to     codec.EntryID
	claim  string
	added  uint64
	follow bool // the end of the log is not the end of the walk: count what is added
	size   pageSize
	waits  int // in vain, in a row, of one that follows
	done   bool

	kept bool // entries are, by who takes them

	feed   *tier.Feed   // of a long walk; nil: none
	memory [2]tier.Page // by turns: one is read while one is taken
	turn   int
}

func newWalk(p *place, from, to codec.EntryID) *walk {
	c := &walk{place: p, from: from, to: to, claim: claimStart}
	if from.IsZero() {
		c.claim = claimNone
	}
	if to.Seq < codec.MaxSeq { // the pack that holds this message ends within its millisecond
		c.to.Seq = codec.MaxSeq
	}
	return c
}

// pages yields the pages up to the end of the walk, each good until the next one, unless they are kept. From the third on each is read
// while the one before it is taken, over a connection of the walk's own: where there are two there may be many. As soon as a page is here
// the next is asked for, so that the server works on it meanwhile.
func (c *walk) pages(ctx context.Context) iter.Seq2[[]codec.Entry, error] {
	return func(yield func([]codec.Entry, error) bool) {
		if c.done { // at its first page, which somebody else has read
			return
		}
		ctx, stop := context.WithCancel(ctx)
		var reader conc.WaitGroup
		defer func() {
			stop()
			reader.Wait()
			if c.feed != nil {
				c.feed.Close()
			}
		}()
		ahead := make(chan []codec.Entry, 1)
		page, err := c.next(ctx)
		for first := true; err == nil && !c.done; first = false {
			if !first {
				if c.feed == nil {
					c.feed = c.place.client.Feed(c.place.addr.LogKey())
				}
				reader.Go(func() { ahead <- c.nextOfMore(ctx) })
			}
			if !yield(page, nil) {
				return
			}
			if page = nil; !first {
				page = <-ahead
			}
			if page == nil {
				page, err = c.next(ctx)
			}
		}
		yield(page, err)
	}
}

// nextOfMore is next of a page that others follow; nil, and the walk is where it was, when there is none. The end of the log, and
// what is wrong, is for the time at which all before it is taken.
func (c *walk) nextOfMore(ctx context.Context) []codec.Entry {
	before := *c
	page, err := c.next(ctx)
	if err != nil || c.done {
		*c = before
		return nil
	}
	c.feed.AskRange(ctx, c.from.String(), c.to.String(), c.size.count()+1)
	return page
}

// next reads a page. At the end it is empty, and done is set unless the walk follows.
func (c *walk) next(ctx context.Context) ([]codec.Entry, error) {
	if c.claim != claimTail {
		entries, err := c.plain(ctx)
		if err != nil {
			return nil, err
		}
		if c.proven(entries) {
			return c.advance(entries, 0, len(entries) > c.size.count()), nil
		}
	}
	return c.checked(ctx)
}

// plain reads a page without asking what is gone: a third of the cost of the script.
func (c *walk) plain(ctx context.Context) ([]codec.Entry, error) {
	if c.feed != nil {
		page := &c.memory[c.turn]
		if c.turn = 1 - c.turn; c.kept {
			page.Renew()
		} else {
			page.Clear()
		}
		err := c.feed.Range(ctx, page, c.from.String(), c.to.String(), c.size.count()+1)
		return page.Entries, err
	}
	key := c.place.addr.LogKey()
	m, err := c.place.client.Do(ctx, key, c.place.client.B().Xrange().Key(key).Start(c.from.String()).End(c.to.String()).Count(int64(c.size.count()+1)).Build())
	if err != nil {
		return nil, err
	}
	return entriesOf(m)
}

// proven: a page that begins with the entry that it had to begin with lacks nothing, since trims take from the front.
func (c *walk) proven(entries []codec.Entry) bool {
	if c.follow && len(entries) <= c.size.count() {
		return false // the count of what was added has to come from the same moment
	}
	return c.claim == claimNone || len(entries) > 0 && entries[0].ID == c.from
}

// checked reads a page by the script, which tells from the same moment what is gone.
func (c *walk) checked(ctx context.Context) ([]codec.Entry, error) {
	counter := "0"
	if c.follow {
		counter = "1"
	}
	m, err := c.place.client.Run(ctx, tier.Call{
		Script: pageScript,
		Keys:   []string{c.place.addr.LogKey()},
		Args: []string{
			c.from.String(), c.to.String(), strconv.Itoa(c.size.count() + 1), c.claim, strconv.FormatUint(c.added, 10), counter,
			strconv.Itoa(pageBytes), strconv.Itoa(pageStep),
		},
	})
	if err != nil {
		return nil, err
	}
	reply, err := tier.Parts("page", m, 5)
	if err != nil {
		return nil, err
	}
	entries, err := entriesOf(reply[0])
	if err != nil {
		return nil, err
	}
	if gone, _ := reply[1].ToString(); gone != "" && !c.inFirstPack(entries) {
		first, err := c.place.firstMessage(ctx, entryID(reply[2]))
		if err != nil {
			return nil, err
		}
		return nil, &TrimmedError{Stream: c.place.addr.String(), First: first, Lost: gone == "lost"}
	}
	added, err := reply[3].AsUint64()
	more, _ := reply[4].ToString()
	return c.advance(entries, added, more != "" || len(entries) > c.size.count()), err
}

// inFirstPack: the walk begins at a message of the first entry that it reads. The script, which sees only the entry's id,
// that of the last message, cannot tell that none is missing.
func (c *walk) inFirstPack(entries []codec.Entry) bool {
	if c.claim != claimStart || len(entries) == 0 {
		return false
	}
	return c.place.records(nil, entries[0])[0].Addr.Compare(c.from) <= 0
}

// advance moves past the page. Unless it ends where the log does, the last entry begins the next one.
func (c *walk) advance(entries []codec.Entry, added uint64, more bool) []codec.Entry {
	c.size.learn(entries)
	if more {
		last := len(entries) - 1
		c.from, c.claim = entries[last].ID, claimSeen
		return entries[:last]
	}
	c.done = !c.follow
	if len(entries) > 0 {
		c.from = entries[len(entries)-1].ID.Next()
	}
	c.claim, c.added = claimTail, added
	return entries
}

// pageSize follows entries that grow at once, and entries that shrink slowly. The zero value knows none.
type pageSize struct {
	mean    int // bytes of an entry of the last page
	largest int // of late
}

// count is how many entries the next page should have.
func (s *pageSize) count() int {
	if s.largest == 0 {
		return firstEntries
	}
	return max(1, min(pageEntries, pageBytes/s.mean, pageMost/s.largest))
}

func (s *pageSize) learn(page []codec.Entry) {
	if len(page) == 0 {
		return
	}
	sum, largest := 0, 1
	for i := range page {
		bytes := bytesOf(page[i])
		sum += bytes
		largest = max(largest, bytes)
	}
	s.mean = max(1, sum/len(page))
	s.largest = max(largest, s.largest-(s.largest+7)/8)
}

package stream_test

import (
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// cursorTwin is a dumb cursor: what became of each entry, and who may say so. It has no checkpoint, and no numbers of commits:
// those are how the real one knows the same.
type cursorTwin struct {
	log     []codec.EntryID // ever appended
	trimmed int             // of these, from the front
	members []*twinOwner

	made    int // how often the cursor was made or moved: all counts anew from then on
	gone    bool
	paused  bool
	owner   *twinOwner // nil: free
	epoch   uint64     // the highest
	expired bool       // the owner's lease has ended
	through map[codec.EntryID]bool
	parked  map[codec.EntryID]*twinParked
	outputs map[codec.EntryID]int
	written int           // of these, ever
	dead    int           // letters, ever
	least   codec.EntryID // what the checkpoint is not below
}

type twinParked struct {
	deliveries int // as it was committed
	times      int // that it was taken up since
	taken      bool
	suspect    bool // its owner died with it
}

// twinOwner is a member, and what it believes.
type twinOwner struct {
	real   *stream.Owner
	epoch  uint64                // 0: it stands by
	holds  []codec.EntryID       // given out to it, and not through
	count  map[codec.EntryID]int // deliveries of these
	last   codec.EntryID         // that a read gave out
	paused bool                  // as it was told
	unsure bool                  // of a commit, until it goes again, before the next
	unsent []tier.Ending         // of that, if the server never had it
}

// effective says whether what a member says counts.
func (c *cursorTwin) effective(x *twinOwner) bool {
	return !c.gone && c.owner == x && x.epoch == c.epoch
}

func (c *cursorTwin) exists(e codec.EntryID) bool { return slices.Contains(c.log[c.trimmed:], e) }

// anew lets the cursor begin at the head, with nobody as its owner.
func (c *cursorTwin) anew() {
	c.made++
	c.owner, c.expired, c.least = nil, false, codec.EntryID{}
	c.through, c.parked, c.outputs = map[codec.EntryID]bool{}, map[codec.EntryID]*twinParked{}, map[codec.EntryID]int{}
}

// acquire makes a member the owner. What another had taken up when it died is suspect.
func (c *cursorTwin) acquire(x *twinOwner, epoch uint64) {
	for _, p := range c.parked {
		p.suspect = p.suspect || p.taken && c.owner != nil
		p.taken = false
	}
	c.owner, c.epoch, c.expired = x, epoch, false
	x.begin(epoch)
}

func (x *twinOwner) begin(epoch uint64) {
	*x = twinOwner{real: x.real, epoch: epoch, count: map[codec.EntryID]int{}}
}

func (x *twinOwner) give(e codec.EntryID, deliveries int) {
	x.holds = append(x.holds, e)
	x.count[e] = deliveries
}

// end does what a commit says about what the member holds.
func (c *cursorTwin) end(x *twinOwner, endings []tier.Ending) {
	for _, e := range endings {
		i := slices.Index(x.holds, e.Entry)
		if i < 0 {
			continue
		}
		x.holds = slices.Delete(x.holds, i, i+1)
		delete(c.parked, e.Entry)
		if len(e.Outputs) > 0 {
			c.outputs[e.Entry]++
			c.written++
		}
		c.dead += len(e.Dead)
		if len(e.Open) > 0 {
			c.parked[e.Entry] = &twinParked{deliveries: e.Deliveries}
		} else {
			c.through[e.Entry] = true
		}
	}
}

// isNext says whether nothing before an entry is open that the member was not given: what is not trimmed is through, parked,
// or in its hands.
func (c *cursorTwin) isNext(x *twinOwner, e codec.EntryID) bool {
	return !slices.ContainsFunc(c.log[c.trimmed:], func(b codec.EntryID) bool {
		return b.Compare(e) < 0 && !c.through[b] && c.parked[b] == nil && !slices.Contains(x.holds, b)
	})
}

// canBeTaken are the parked entries, suspects or not, of which Due has to know: up to an address.
func (c *cursorTwin) canBeTaken(suspect bool, upTo codec.EntryID) (list []codec.EntryID) {
	for e, p := range c.parked {
		if !p.taken && p.suspect == suspect && e.Compare(upTo) <= 0 {
			list = append(list, e)
		}
	}
	return list
}

// isAlone says whether a suspect is taken up.
func (c *cursorTwin) isAlone() bool {
	for _, p := range c.parked {
		if p.taken && p.suspect {
			return false
		}
	}
	return true
}

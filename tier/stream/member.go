package stream

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Member is one consumer of a group: one incarnation of one process. What it holds is its own until it is silent for
// longer than the lease. Every call but Read, Sync, Retire and Leave compares the member's number first and is refused whole
// with tier.ErrFenced when entries of the member were taken over; Sync tells what is left.
//
// Its methods are safe for concurrent use.
type Member struct {
	group *Group
	lease time.Duration
	name  string
	guard *tier.Guard // of the number
	feed  *tier.Feed  // of the log

	mu     sync.Mutex
	number string        // as the owner hash had it at the last Sync
	start  codec.EntryID // of the group, as its hash had it then; messages of a pack below it are not the group's
	cursor string        // where the next TakeOver looks

	again fetch // memory of ReadAgain
}

// Join creates the group if there is none and makes a member of it, under a name that no other has.
func (g *Group) Join(ctx context.Context, prefix string) (*Member, error) {
	name, err := memberName(prefix)
	if err != nil {
		return nil, err
	}
	is, err := g.createNew(ctx)
	if err != nil {
		return nil, err
	}
	m := &Member{group: g, lease: is.lease, name: name, start: is.start, cursor: "-", guard: guardOf(g, name), feed: g.place.client.Feed(g.place.addr.LogKey())}
	if _, err := m.Sync(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// memberName is a name that no other member has.
func memberName(prefix string) (string, error) {
	name := prefix + "-" + strings.ToLower(rand.Text()[:8])
	return name, tier.CheckName("consumer", name)
}

// Name of the consumer.
func (m *Member) Name() string { return m.name }

// Lease of the group.
func (m *Member) Lease() time.Duration { return m.lease }

// Sync asks for the member's number and for what it holds, at most 4096 entries: at the start, after tier.ErrFenced, and
// after a Read that failed.
func (m *Member) Sync(ctx context.Context) ([]tier.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := append(m.logAndOwners(), m.group.place.addr.GroupKey(m.group.cfg.Name))
	reply, err := m.run(ctx, syncScript, keys, m.group.cfg.Name, m.name, strconv.Itoa(MaxBatch))
	if err != nil {
		return nil, err
	}
	parts, err := tier.Parts("sync", reply, 3)
	if err != nil {
		return nil, err
	}
	number, err := parts[0].ToString()
	if err != nil {
		return nil, err
	}
	held, err := heldOf(parts[2])
	if err == nil {
		m.group.place.declared.Store(nil) // the stream may be declared in another way by now
		m.number, m.start = number, entryID(parts[1])
		m.cursor = "-" // what a call took whose reply was lost lies behind it
	}
	return held, err
}

// Rebuild makes the group again that the server has lost, after tier.ErrNoGroup. The member holds nothing then, and its
// next Sync gives it a number.
//
// Errors: ErrStreamRemoved, ErrGroupDeleted: both were meant to go.
func (m *Member) Rebuild(ctx context.Context) (tier.Rebuilt, error) {
	is, err := m.group.create(ctx, true, m.lease)
	if err != nil {
		return tier.Rebuilt{}, err
	}
	how := map[string]tier.Rebuild{"resumed": tier.Resumed, "restarted": tier.Restarted}[is.code]
	if how == "" {
		how = tier.Found
	}
	return tier.Rebuilt{How: how, After: is.after}, nil
}

// Checkpoint writes down up to where everything is settled, so that the group can be made again there. What is settled
// after the last one is what comes again if the server loses the group.
func (m *Member) Checkpoint(ctx context.Context) error {
	a := m.group.place.addr
	_, err := m.run(ctx, checkpointScript, []string{a.LogKey(), a.GroupKey(m.group.cfg.Name)}, m.group.cfg.Name)
	return err
}

// Renew starts the leases of entries, at most 4096, anew and shows that the member is alive. Gone are those which are no
// longer pending: trimmed, or settled by another program.
func (m *Member) Renew(ctx context.Context, entries []codec.EntryID) (gone []codec.EntryID, err error) {
	if err := bounded(len(entries)); err != nil {
		return nil, err
	}
	reply, err := m.run(ctx, renewScript, m.logAndOwners(), textsOf(m.identify(), entries)...)
	if err != nil {
		return nil, err
	}
	parts, err := tier.Parts("renew", reply, 2)
	if err != nil {
		return nil, err
	}
	if code, _ := parts[0].AsInt64(); code < 0 {
		return nil, tier.ErrFenced
	}
	texts, err := parts[1].AsStrSlice()
	if err != nil || len(texts) == len(entries) {
		return nil, err
	}
	held := make(map[string]bool, len(texts))
	for _, t := range texts {
		held[t] = true
	}
	for _, e := range entries {
		if !held[e.String()] {
			gone = append(gone, e)
		}
	}
	return gone, nil
}

// Release hands entries back, at most 4096: anyone, this member included, may take them over after delay, which is at most the lease.
func (m *Member) Release(ctx context.Context, held []tier.Returned, delay time.Duration) error {
	if err := bounded(len(held)); err != nil || len(held) == 0 {
		return err
	}
	idle := max(0, m.lease-delay)
	args := append(m.identify(), millis(idle))
	for _, h := range held {
		args = append(args, h.Entry.String(), strconv.Itoa(max(0, h.Deliveries)), rowOf(h))
	}
	keys := append(m.logAndOwners(), m.group.place.addr.OpenKey(m.group.cfg.Name))
	_, err := m.fenced(ctx, releaseScript, keys, args)
	return err
}

// Retire removes members that hold nothing and have been silent for ten leases.
func (m *Member) Retire(ctx context.Context) error {
	silence := millis(10 * m.lease)
	reply, err := m.run(ctx, retireScript, m.logAndOwners(), m.group.cfg.Name, silence)
	if err != nil {
		return err
	}
	n, err := reply.AsInt64()
	if err == nil && n < 0 {
		return m.group.absent("retire")
	}
	return err
}

// Close gives up the connections that the member has for reading and for settling; Leave and Client.Close do that, too. What it does
// later goes over the client's.
func (m *Member) Close() {
	m.guard.Close()
	m.feed.Close()
}

// Leave removes the member, unless it holds entries: then others take them over, and retire it. It begins with Close.
func (m *Member) Leave(ctx context.Context) error {
	m.Close()
	_, err := m.run(ctx, leaveScript, m.logAndOwners(), m.group.cfg.Name, m.name)
	return err
}

func (m *Member) logAndOwners() []string {
	a := m.group.place.addr
	return []string{a.LogKey(), a.OwnersKey(m.group.cfg.Name)}
}

func (m *Member) logOwnersRetryOpen() []string {
	a := m.group.place.addr
	return append(m.logAndOwners(), a.RetryKey(m.group.cfg.Name), a.OpenKey(m.group.cfg.Name))
}

// identify begins the arguments of a fenced call.
func (m *Member) identify() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []string{m.group.cfg.Name, m.name, m.number}
}

func (m *Member) run(ctx context.Context, s *tier.Script, keys []string, args ...string) (rueidis.RedisMessage, error) {
	return m.group.place.client.Run(ctx, tier.Call{Script: s, Keys: keys, Args: args})
}

// fenced runs a script that answers a count, or -1.
func (m *Member) fenced(ctx context.Context, s *tier.Script, keys, args []string) (int, error) {
	reply, err := m.run(ctx, s, keys, args...)
	if err != nil {
		return 0, err
	}
	n, err := reply.AsInt64()
	if err == nil && n < 0 {
		return 0, tier.ErrFenced
	}
	return int(n), err
}

// bounded refuses more entries than a script can take.
func bounded(entries int) error {
	if entries > MaxBatch {
		return fmt.Errorf("%w: %d entries, at most %d", ErrBadCall, entries, MaxBatch)
	}
	return nil
}

// rowOf is the row in open of an entry that is released; empty when it is as it was.
func rowOf(h tier.Returned) string {
	if len(h.Open) == 0 {
		return ""
	}
	row := strconv.Itoa(max(0, h.Deliveries) + 1)
	for _, o := range h.Open {
		row += fmt.Sprintf(" %d %d 0", o.Index, o.Attempt)
	}
	return row
}

// heldOf reads {id, deliveries, id, deliveries, ...}.
func heldOf(m rueidis.RedisMessage) ([]tier.Held, error) {
	flat, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	held := make([]tier.Held, len(flat)/2)
	for i := range held {
		text, err := flat[2*i].ToString()
		if err != nil {
			return nil, err
		}
		n, err := flat[2*i+1].AsInt64()
		if err != nil {
			return nil, err
		}
		id, err := codec.ParseEntryID(text)
		if err != nil {
			return nil, err
		}
		held[i] = tier.Held{Entry: id, Deliveries: int(n)}
	}
	return held, nil
}

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

	mu     sync.Mutex
	number string        // as the owner hash had it at the last Sync
	start  codec.EntryID // of the group, as its hash had it then; messages of a pack below it are not the group's
	cursor string        // where the next TakeOver looks
}

// Join creates the group if there is none and makes a member of it, under a name that no other has.
func (g *Group) Join(ctx context.Context, prefix string) (*Member, error) {
	name := prefix + "-" + strings.ToLower(rand.Text()[:8])
	if err := tier.CheckName("consumer", name); err != nil {
		return nil, err
	}
	is, err := g.createNew(ctx)
	if err != nil {
		return nil, err
	}
	m := &Member{group: g, lease: is.lease, name: name, start: is.start, cursor: "-"}
	if _, err := m.Sync(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// Name of the consumer.
func (m *Member) Name() string { return m.name }

// Lease of the group.
func (m *Member) Lease() time.Duration { return m.lease }

// maxBlock is how long one request waits on the server. It is not cut off, since an entry given to nobody would be
// stranded; so this is how long the end of a context goes unnoticed.
const maxBlock = time.Second

// Read returns up to n entries that nobody was given yet. It waits on the server for up to wait; when ctx ends meanwhile,
// for a second more at most. After an error, Sync tells what was given all the same.
func (m *Member) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	if n <= 0 {
		return nil, nil // the server would take it for no limit
	}
	for {
		reply, err := m.read(ctx, n, min(wait, maxBlock))
		wait -= maxBlock
		switch {
		case rueidis.IsRedisNil(err) && wait > 0 && ctx.Err() == nil:
			continue
		case rueidis.IsRedisNil(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		entries, err := readReply(reply)
		if err != nil {
			return nil, err
		}
		return m.leased(ctx, entries, nil)
	}
}

func (m *Member) read(ctx context.Context, n int, wait time.Duration) (rueidis.RedisMessage, error) {
	p := m.group.place
	key := p.addr.LogKey()
	read := p.client.B().Xreadgroup().Group(m.group.cfg.Name, m.name).Count(int64(n))
	if wait >= time.Millisecond {
		return p.client.Wait(ctx, key, wait, read.Block(wait.Milliseconds()).Streams().Key(key).Id(">").Build())
	}
	return p.client.Do(ctx, key, read.Streams().Key(key).Id(">").Build())
}

// leased decodes entries. Messages of a pack below the group's start are left out.
func (m *Member) leased(ctx context.Context, entries []codec.Entry, deliveries map[codec.EntryID]int) ([]tier.Leased, error) {
	if err := m.group.place.identify(ctx); err != nil {
		return nil, err
	}
	if err := m.group.place.waits(entries); err != nil {
		return nil, err
	}
	start, asked := m.begins(), false
	out := make([]tier.Leased, len(entries))
	for i := range entries {
		records := m.group.place.records(nil, entries[i])
		if len(records) > 1 && records[0].Addr.Compare(start) < 0 && !asked {
			asked = true // the group may have been reset since
			var err error
			if start, err = m.askStart(ctx); err != nil {
				return nil, err
			}
		}
		for len(records) > 1 && records[0].Addr.Compare(start) < 0 {
			records = records[1:]
		}
		out[i] = tier.Leased{Entry: entries[i].ID, Records: records, Deliveries: 1, Bytes: bytesOf(entries[i])}
		if n, ok := deliveries[entries[i].ID]; ok {
			out[i].Deliveries = n
		}
	}
	return out, nil
}

func (m *Member) begins() codec.EntryID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start
}

// askStart asks where the group begins. Without a record of it, everything that it is given is its own.
func (m *Member) askStart(ctx context.Context) (codec.EntryID, error) {
	p := m.group.place
	key := p.addr.GroupKey(m.group.cfg.Name)
	reply, err := p.client.Do(ctx, key, p.client.B().Hget().Key(key).Field(tier.StartField).Build())
	if err != nil && !rueidis.IsRedisNil(err) {
		return codec.EntryID{}, err
	}
	start := entryID(reply)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start = start
	return start, nil
}

// Sync asks for the member's number and for what it holds, at most 4096 entries: at the start, after tier.ErrFenced, and
// after a Read that failed.
func (m *Member) Sync(ctx context.Context) ([]tier.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := append(m.logAndOwners(), m.group.place.addr.GroupKey(m.group.cfg.Name))
	reply, err := m.run(ctx, syncScript, keys, m.group.cfg.Name, m.name, strconv.Itoa(maxBatch))
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

// Settle settles entries, at most 4096, and returns how many of them were pending.
func (m *Member) Settle(ctx context.Context, entries []codec.EntryID) (acked int, err error) {
	if err := bounded(len(entries)); err != nil || len(entries) == 0 {
		return 0, err
	}
	return m.fenced(ctx, settleScript, m.logAndOwners(), appendIDs(m.identify(), entries))
}

// Renew starts the leases of entries, at most 4096, anew and shows that the member is alive. Gone are those which are no
// longer pending: trimmed, or settled by another program.
func (m *Member) Renew(ctx context.Context, entries []codec.EntryID) (gone []codec.EntryID, err error) {
	if err := bounded(len(entries)); err != nil {
		return nil, err
	}
	reply, err := m.run(ctx, renewScript, m.logAndOwners(), appendIDs(m.identify(), entries)...)
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

// Leave removes the member, unless it holds entries: then others take them over, and retire it.
func (m *Member) Leave(ctx context.Context) error {
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
	if entries > maxBatch {
		return fmt.Errorf("%w: %d entries, at most %d", ErrBadCall, entries, maxBatch)
	}
	return nil
}

func appendIDs(args []string, entries []codec.EntryID) []string {
	for _, e := range entries {
		args = append(args, e.String())
	}
	return args
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

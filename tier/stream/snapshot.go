package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// MaxSnapshot is how many bytes the state of a snapshot may have: it goes through the server in one call.
const MaxSnapshot = 32 << 20

// ErrBadSnapshot: what stands in the place of a snapshot is none.
var ErrBadSnapshot = errors.New("stream: not a snapshot: it is of no use, delete it")

// Snapshot is a state that was folded from all messages of a stream up to one of them. The zero value is none.
type Snapshot struct {
	At    codec.EntryID // address of the last message that was folded
	Entry codec.EntryID // that holds it, as in its Position
	State []byte        // up to MaxSnapshot
	added uint64        // entries that the log had ever taken when Entry was its newest; 0: it was not
}

// Snapshots keeps the newest snapshot of a fold of a stream, whichever process made it. It is a cache, which spares the fold
// of what is in it.
type Snapshots struct {
	place *place
	key   string
}

// NewSnapshots names the snapshots of a fold. It sends nothing.
func NewSnapshots(client *tier.Client, address, name string) (*Snapshots, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return nil, err
	}
	if err := tier.CheckName("projection", name); err != nil {
		return nil, err
	}
	return &Snapshots{p, p.addr.FoldKey(name)}, nil
}

// Load reads the snapshot, the zero one when there is none.
//
// Errors: ErrBadSnapshot.
func (s *Snapshots) Load(ctx context.Context) (Snapshot, error) {
	m, err := s.place.client.Do(ctx, s.key, s.place.client.B().Hmget().Key(s.key).Field("at", "entry", "added", "state").Build())
	if errors.Is(err, tier.ErrWrongType) {
		return Snapshot{}, fmt.Errorf("%w (%s): %w", ErrBadSnapshot, s.key, err)
	}
	if err != nil {
		return Snapshot{}, err
	}
	row, err := tier.Texts("HMGET "+s.key, m, 4)
	if err != nil || row[0]+row[1]+row[2]+row[3] == "" {
		return Snapshot{}, err
	}
	snapshot := Snapshot{State: []byte(row[3])}
	var bad [3]error
	snapshot.At, bad[0] = codec.ParseEntryID(row[0])
	snapshot.Entry, bad[1] = codec.ParseEntryID(row[1])
	snapshot.added, bad[2] = strconv.ParseUint(row[2], 10, 64)
	if err := errors.Join(bad[:]...); err != nil || snapshot.At.IsZero() || snapshot.Entry.Compare(snapshot.At) < 0 {
		return Snapshot{}, fmt.Errorf("%w (%s): at %.32q, in entry %.32q, of %.32q", ErrBadSnapshot, s.key, row[0], row[1], row[2])
	}
	return snapshot, nil
}

// Keep keeps a snapshot in the place of an older one. False without an error says that it was of no use: there is a newer one, or
// the log has no such entry any more.
//
// Errors: *TooLargeError.
func (s *Snapshots) Keep(ctx context.Context, snapshot Snapshot) (bool, error) {
	if n := len(snapshot.State); n > MaxSnapshot {
		return false, &TooLargeError{What: "snapshot, bytes", Size: n, Limit: MaxSnapshot}
	}
	m, err := s.place.client.Run(ctx, tier.Call{
		Script: keepSnapshotScript,
		Keys:   []string{s.key, s.place.addr.LogKey()},
		Args:   []string{snapshot.At.String(), snapshot.Entry.String(), rueidis.BinaryString(snapshot.State)},
	})
	if err != nil {
		return false, err
	}
	reply, err := tier.Texts("keep_snapshot", m, 1)
	return err == nil && reply[0] == "kept", err
}

// Delete deletes the snapshot.
func (s *Snapshots) Delete(ctx context.Context) error {
	_, err := s.place.client.Do(ctx, s.key, s.place.client.B().Unlink().Key(s.key).Build())
	return err
}

// UnreadAge is the age, by the server's clock, of the oldest entry that is not below an address or at it; 0: there is none.
func (r *Reader) UnreadAge(ctx context.Context, after codec.EntryID) (time.Duration, error) {
	now, err := r.place.client.Now(ctx, r.place.addr.LogKey())
	if err != nil {
		return 0, err
	}
	ids, err := r.place.idsOf(ctx, tier.Call{Script: unreadScript, Keys: []string{r.place.addr.LogKey()}, Args: []string{after.String()}}, 1)
	if err != nil {
		return 0, err
	}
	return age(ids[0], now), nil
}

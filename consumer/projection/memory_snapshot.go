package projection

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// load makes the state of the snapshot the one to go on with. Of one that is of no use it only tells: the zero one is returned, and all
// is folded.
func (m *Memory[S]) load(ctx context.Context) (stream.Snapshot, error) {
	if m.cfg.SnapshotEvery < 0 {
		return stream.Snapshot{}, nil
	}
	from, err := m.snapshots.Load(ctx)
	if err != nil && !errors.Is(err, stream.ErrBadSnapshot) {
		return from, err
	}
	if err == nil && from.At.IsZero() {
		return from, nil
	}
	var state S
	if err == nil {
		state, err = m.decode(from.State)
	}
	if err == nil && !m.live.IsZero() && from.At.Compare(m.live) > 0 {
		err = errors.New("it is newer than the log")
	}
	if err != nil {
		m.log.Warn("snapshot not used, all that the log has is folded", slog.Any("err", err))
		return stream.Snapshot{}, nil
	}
	from.State = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.at, m.kept = state, from, from.At
	return from, nil
}

func (m *Memory[S]) decode(data []byte) (state S, err error) {
	defer caught(&err)
	return decode(m.cfg.Codec, string(data))
}

// keepOn keeps the state from time to time.
func (m *Memory[S]) keepOn(ctx context.Context) {
	if m.cfg.SnapshotEvery < 0 {
		return
	}
	ticker := time.NewTicker(m.cfg.SnapshotEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.keep(ctx)
		}
	}
}

// keep keeps the state, if it has changed. That it cannot be kept only makes the next start take longer.
func (m *Memory[S]) keep(ctx context.Context) {
	if m.cfg.SnapshotEvery < 0 {
		return
	}
	snapshot, changed, err := m.snapshot()
	if err == nil && changed {
		_, err = m.snapshots.Keep(ctx, snapshot)
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		m.kept = snapshot.At
	case reactionTo(err) == giveUp:
		m.log.Error("snapshot not kept: each start folds all since the last one", slog.Any("err", err))
	default:
		m.log.Warn("snapshot not kept, it is tried again", slog.Any("err", err))
	}
}

// snapshot is the state as it is, if it has changed since the last one that was kept.
func (m *Memory[S]) snapshot() (snapshot stream.Snapshot, changed bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	defer caught(&err)
	snapshot = m.at
	if m.spoil || snapshot.At == m.kept {
		return snapshot, false, nil
	}
	var message codec.Message
	if err := m.cfg.Codec.Encode(&message, m.state); err != nil {
		return snapshot, false, err
	}
	snapshot.State = message.Data
	return snapshot, true, nil
}

// DropSnapshot deletes the snapshot of a version of a Memory: the next that starts folds all that the log has, and the running ones
// go on, and keep theirs.
func DropSnapshot(ctx context.Context, client *tier.Client, address, name string, version int) error {
	s, err := stream.NewSnapshots(client, address, Versioned(name, version))
	if err != nil {
		return err
	}
	return s.Delete(ctx)
}

package embedded

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lock is a lock on a file. The system gives it up when its holder dies, so
// nothing has to be cleaned up after a kill -9, and a reused process id cannot
// be taken for a holder.
type lock struct{ f *os.File }

// lockPoll is how often a lock that is taken is tried again. There is no
// waiting for a file lock that a context could end.
const lockPoll = 5 * time.Millisecond

// tryLock returns nil when someone else holds the lock in a way that excludes
// ours.
func tryLock(path string, exclusive bool) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	ok, err := tryFlock(f, exclusive)
	if err == nil && ok {
		return &lock{f}, nil
	}
	f.Close()
	return nil, err
}

// waitLock takes the lock exclusively, or fails when ctx ends first.
func waitLock(ctx context.Context, path string) (*lock, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		l, err := tryLock(path, true)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("embedded: %s is held by another process: %w", path, ctx.Err())
		}
	}
}

// upgrade makes a shared lock exclusive; false when others share it. A lock
// that could not be upgraded may be lost.
func (l *lock) upgrade() (bool, error) { return tryFlock(l.f, true) }

// unlock gives up the lock, also for a child that is just being started and has
// not closed what it inherited yet.
func (l *lock) unlock() {
	unflock(l.f)
	l.f.Close()
}

// leave closes our side of a lock that a child has inherited: it holds the lock
// for as long as it lives.
func (l *lock) leave() { l.f.Close() }

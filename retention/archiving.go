package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// maxArchivePause is how long a stream waits at most that could not be archived.
const maxArchivePause = time.Minute

// archiveGrace is how long a turn gets to end that was told to: a store that hangs may heed nothing.
const archiveGrace = 2 * time.Second

// errHangs: a store that has not answered for as long as a turn may take.
var errHangs = errors.New("retention: the store hangs")

// archiving archives the streams of a scope that are to be, beside the beats: a store that hangs keeps nobody from being trimmed.
type archiving struct {
	sweeper *Sweeper
	streams map[string]*standing // by name
	mu      sync.Mutex
	stores  map[string]archive.Store // by address
}

// standing is how a stream stands that is archived.
type standing struct {
	failed  int       // times in a row
	until   time.Time // it is left alone
	hanging <-chan outcome
}

// outcome is what a turn came to.
type outcome struct {
	done archive.Archived
	more bool
	err  error
}

func newArchiving(s *Sweeper) *archiving {
	return &archiving{sweeper: s, streams: map[string]*standing{}, stores: map[string]archive.Store{}}
}

// run archives at each beat until ctx ends, while the sweeper holds the right to trim.
func (a *archiving) run(ctx context.Context) {
	for tier.Pause(ctx, a.sweeper.cfg.Beat) {
		if !a.sweeper.holds.Load() {
			a.keep(nil)
		}
		for more := true; more && ctx.Err() == nil && a.sweeper.holds.Load(); {
			more = false
			list, err := stream.Retentions(ctx, a.sweeper.client, a.sweeper.cfg.Scope)
			if err != nil {
				break // which the beat tells
			}
			list = slices.DeleteFunc(list, func(r stream.Retained) bool { return !a.sweeper.archives(r) })
			a.keep(list)
			for _, r := range list {
				more = a.turn(ctx, r) || more
			}
		}
	}
}

// keep forgets the streams that are not among these.
func (a *archiving) keep(list []stream.Retained) {
	for name, s := range a.streams {
		if slices.ContainsFunc(list, func(r stream.Retained) bool { return r.Address.Stream == name }) {
			continue
		}
		a.sweeper.metrics.unarchived(name)
		if s.hanging == nil {
			delete(a.streams, name)
		}
	}
}

// turn gives a stream its turn, when it is not left alone: more says that there is another segment to be made.
func (a *archiving) turn(ctx context.Context, r stream.Retained) (more bool) {
	name := r.Address.Stream
	s := a.streams[name]
	if s == nil {
		s = &standing{}
		a.streams[name] = s
	}
	a.look(ctx, r)
	if time.Now().Before(s.until) {
		return false
	}
	got := a.within(ctx, s, r)
	if ctx.Err() != nil || errors.Is(got.err, stream.ErrSweepLost) || errors.Is(got.err, stream.ErrPolicyChanged) {
		return false
	}
	a.sweeper.metrics.archivedTurn(name, &got.done, got.err)
	a.tell(r.Address, &got.done)
	if got.err == nil {
		s.failed = 0
		return got.more
	}
	s.failed++
	s.until = time.Now().Add(tier.Doubled(s.failed, a.sweeper.cfg.Beat, maxArchivePause))
	a.sweeper.client.Logger().Error("stream not archived: nothing of it goes that is not archived, until that is mended", slog.String("stream", r.Address.String()), slog.Any("err", got.err))
	return false
}

// look shows how far the archive is behind, of which its store is not asked.
func (a *archiving) look(ctx context.Context, r stream.Retained) {
	archiver, err := a.archiver(nil, r)
	if err != nil {
		return // the turn says why
	}
	if behind, err := archiver.Behind(ctx); err == nil {
		a.sweeper.metrics.archive.behind.WithLabelValues(a.sweeper.cfg.Scope, r.Address.Stream).Set(behind.Seconds())
	}
}

// within archives a segment, and waits no longer than a turn may take. The goroutine of a store that heeds no deadline is left, also when Run
// ends; until it has ended the stream gets no other.
func (a *archiving) within(ctx context.Context, s *standing, r stream.Retained) outcome {
	if s.hanging != nil {
		select {
		case <-s.hanging:
			s.hanging = nil
		default:
			return outcome{err: errHangs}
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.sweeper.cfg.ArchiveTimeout, errHangs)
	defer cancel()
	ended := make(chan outcome, 1)
	go func() {
		var got outcome
		got.done, got.more, got.err = a.segment(ctx, r, false)
		ended <- got
	}()
	select {
	case got := <-ended:
		return got
	case <-ctx.Done():
	}
	grace := time.NewTimer(archiveGrace)
	defer grace.Stop()
	select {
	case got := <-ended:
		if got.err != nil && errors.Is(context.Cause(ctx), errHangs) {
			got.err = fmt.Errorf("%w: %w", errHangs, got.err)
		}
		return got
	case <-grace.C:
		s.hanging = ended
		return outcome{err: errHangs}
	}
}

func (a *archiving) tell(address tier.Address, done *archive.Archived) {
	if done.Moved {
		a.sweeper.client.Logger().Warn("the log had lost its end: it goes on above what is archived", slog.String("stream", address.String()))
	}
}

// segment archives what there is, a segment at most.
func (a *archiving) segment(ctx context.Context, r stream.Retained, flush bool) (done archive.Archived, more bool, err error) {
	store, err := a.store(ctx, r.Policy.Archive)
	if err != nil {
		return done, false, err
	}
	archiver, err := a.archiver(store, r)
	if err != nil {
		return done, false, err
	}
	return archiver.Turn(ctx, flush)
}

// store opens the store at an address once. One that hangs meanwhile keeps no other.
func (a *archiving) store(ctx context.Context, address string) (archive.Store, error) {
	a.mu.Lock()
	store, ok := a.stores[address]
	a.mu.Unlock()
	if ok {
		return store, nil
	}
	store, err := a.sweeper.cfg.Stores(ctx, address)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stores[address] = store
	return store, nil
}

func (a *archiving) archiver(store archive.Store, r stream.Retained) (*archive.Archiver, error) {
	return archive.NewArchiver(a.sweeper.client, a.sweeper.right, store, archive.ArchiverConfig{
		Address: r.Address, Policy: r.Policy, Temp: a.sweeper.cfg.Temp, Settle: a.sweeper.cfg.Settle,
	})
}

// archives: the stream is of those that this sweeper has to archive.
func (s *Sweeper) archives(r stream.Retained) bool {
	return r.Err == nil && r.Policy.Archive != "" && (s.cfg.Stream == "" || s.cfg.Stream == r.Address.Stream)
}

// Archived is what Archive did with a stream.
type Archived struct {
	Address tier.Address
	Store   string
	archive.Archived
	Err error
}

// Archive archives all of the scope's streams that is old enough, whatever the policy says of sizes, and answers what it did with each. It
// trims nothing. It holds the right to trim meanwhile.
//
// Errors: *HeldError. What fails of one stream is its Err.
func (s *Sweeper) Archive(ctx context.Context) (list []Archived, err error) {
	err = s.holding(ctx, func(ctx context.Context) error {
		a := newArchiving(s)
		all, err := stream.Retentions(ctx, s.client, s.cfg.Scope)
		for _, r := range all {
			if !s.archives(r) {
				continue
			}
			did := Archived{Address: r.Address, Store: r.Policy.Archive}
			for more := true; more && did.Err == nil; {
				var done archive.Archived
				done, more, did.Err = a.segment(ctx, r, true)
				s.metrics.archivedTurn(r.Address.Stream, &done, did.Err)
				a.tell(r.Address, &done)
				did.Add(done)
			}
			list = append(list, did)
		}
		return err
	})
	return list, err
}

// holding works while this sweeper holds the right, which is kept meanwhile and given back then. It ends early when the right is lost.
func (s *Sweeper) holding(ctx context.Context, work func(context.Context) error) error {
	free, err := s.take(ctx)
	if err != nil {
		return err
	}
	if free > 0 {
		return &HeldError{s.cfg.Scope, free}
	}
	defer s.release(ctx)
	working, lost := context.WithCancelCause(ctx)
	keeping := pool.New()
	keeping.Go(func() {
		for tier.Pause(working, s.cfg.Lease/3) {
			if held, _, err := s.right.Take(working); err == nil && !held {
				lost(fmt.Errorf("%w (%s)", stream.ErrSweepLost, s.cfg.Scope))
			}
		}
	})
	err = work(working)
	if cause := context.Cause(working); cause != nil {
		err = cause
	}
	lost(nil)
	keeping.Wait()
	return err
}

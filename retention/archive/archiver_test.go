package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

// stage is a stream of the test's own that is archived.
type stage struct {
	server *tiertest.Server
	t      testing.TB
	ctx    context.Context
	client *tier.Client
	addr   tier.Address
	policy stream.Retention
	right  *stream.Sweep
	writer *stream.Writer
}

func newStage(t testing.TB, s *tiertest.Server) *stage {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	st := &stage{
		server: s, t: t, ctx: ctx, client: tiertest.Dial(t, s), addr: tier.Address{Scope: tiertest.AuditedScope(t, s), Stream: "orders"},
		policy: stream.Retention{Settled: true, Exact: true, Archive: "file:///archive", SegmentBytes: 100 * 100},
	}
	var err error
	st.writer, err = stream.NewWriter(st.client, stream.WriterConfig{Address: st.addr.String(), Pack: 2})
	require.NoError(t, err)
	st.append(1)
	require.NoError(t, stream.SetRetention(ctx, st.client, st.addr.String(), st.policy))
	st.right, err = stream.NewSweep(st.client, st.addr.Scope, time.Minute)
	require.NoError(t, err)
	held, _, err := st.right.Take(ctx)
	require.NoError(t, err)
	require.True(t, held)
	return st
}

func (s *stage) append(n int) {
	s.t.Helper()
	for range n {
		_, err := s.writer.AppendBatch(s.ctx, []codec.Message{{Type: "t", Key: "k", Data: []byte("data")}, {Type: "u", Data: []byte("more")}})
		require.NoError(s.t, err)
	}
}

// archiver takes entries of any age.
func (s *stage) archiver(store Store) *Archiver {
	s.t.Helper()
	a, err := NewArchiver(s.client, s.right, store, ArchiverConfig{Address: s.addr, Policy: s.policy, Temp: s.t.TempDir()})
	require.NoError(s.t, err)
	a.settle = -time.Minute
	return a
}

// all archives all that there is.
func (s *stage) all(a *Archiver) (sum Archived) {
	s.t.Helper()
	for more := true; more; {
		var done Archived
		var err error
		done, more, err = a.Turn(s.ctx, true)
		require.NoError(s.t, err)
		sum.Add(done)
	}
	return sum
}

func (s *stage) trim() int64 {
	s.t.Helper()
	got, err := s.right.Trim(s.ctx, s.addr.Stream, s.policy, stream.Trim{Keep: -1, Settled: true, Exact: true})
	require.NoError(s.t, err)
	return got.Entries
}

func (s *stage) logged() (records []codec.Record) {
	s.t.Helper()
	r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(s.t, err)
	for record, err := range r.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		records = append(records, record)
	}
	return records
}

func (s *stage) archived(store Store) (records []codec.Record) {
	s.t.Helper()
	r, err := NewReader(store, ReaderConfig{Address: s.addr.String()})
	require.NoError(s.t, err)
	for record, err := range r.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		records = append(records, record)
	}
	return records
}

// TestArchive (78 stream_archived): what was in the log is in the archive, in its order, and only then goes.
func TestArchive(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append(400)
		s.append(3)
		store := &Memory{}
		want := s.logged()
		require.Zero(t, s.trim())
		a := s.archiver(store)
		sum := s.all(a)
		require.Greater(t, sum.Segments, 1)
		require.EqualValues(t, 404, sum.Entries)
		require.EqualValues(t, len(want), sum.Messages)
		require.Equal(t, want, s.archived(store))
		require.EqualValues(t, 404, s.trim())
		s.append(2)
		want = append(want, s.logged()...)
		require.EqualValues(t, 1, s.all(a).Segments)
		require.Equal(t, want, s.archived(store))
		done, more, err := a.Turn(s.ctx, true)
		require.NoError(t, err)
		require.False(t, more)
		require.Zero(t, done)
	})
}

// TestYoungIsLeft: what is not 10 s old is not archived; of what is older, no segment is made that is small and young.
func TestYoungIsLeft(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	store := &Memory{}
	a := s.archiver(store)
	a.settle = DefaultSettle
	done, more, err := a.Turn(s.ctx, true)
	require.NoError(t, err)
	require.False(t, more)
	require.Zero(t, done.Segments)
	a.settle = -time.Minute
	done, _, err = a.Turn(s.ctx, false)
	require.NoError(t, err)
	require.Zero(t, done.Segments)
	require.Empty(t, store.objects)
	a.policy.SegmentAge = time.Millisecond
	require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), a.policy))
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) {
		done, _, err = a.Turn(s.ctx, false)
		require.NoError(t, err)
		return done.Segments == 1, "it is too young"
	})
}

// errDied is where a test's process ends.
var errDied = errors.New("died")

// mortal dies at a request, before it is done or after.
type mortal struct {
	Store
	lives int // requests that it lives through
	after bool
}

func (m *mortal) dies(ctx context.Context, request func() error) error {
	m.lives--
	if m.lives > 0 {
		return request()
	}
	if m.lives == 0 && m.after {
		_ = request()
	}
	return errDied
}

func (m *mortal) Create(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return m.dies(ctx, func() error { return m.Store.Create(ctx, name, body, size) })
}

func (m *mortal) ReadAt(ctx context.Context, name string, p []byte, at int64) (n int, err error) {
	err = m.dies(ctx, func() error { n, err = m.Store.ReadAt(ctx, name, p, at); return nil })
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (m *mortal) List(ctx context.Context, prefix string) (list []Object, err error) {
	err = m.dies(ctx, func() error { list, err = m.Store.List(ctx, prefix); return err })
	return list, err
}

func (m *mortal) Delete(ctx context.Context, name string) error {
	return m.dies(ctx, func() error { return m.Store.Delete(ctx, name) })
}

// TestCrash (B156): an archiver that dies at any of its requests, while others append, is followed by one that makes the same objects: each
// entry is in one segment, nothing goes that is in none, and nothing is listed that is not there.
func TestCrash(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	store := &Memory{}
	var want []codec.Record
	for lives := 1; lives < 30; lives++ {
		for _, after := range []bool{false, true} {
			s.append(1 + lives%3)
			want = append(want, s.logged()[len(s.logged())-2*(1+lives%3):]...)
			_, _, err := s.archiver(&mortal{store, lives, after}).Turn(s.ctx, true)
			if err != nil {
				require.ErrorIs(t, err, errDied)
			}
			held := s.logged()
			s.trim()
			have := s.archived(store)
			require.Subset(t, ids(append(have, s.logged()...)), ids(held), "nothing goes that the archive does not have")
		}
	}
	s.all(s.archiver(store))
	have := s.archived(store)
	require.Equal(t, want, have[2:])
	m, err := readManifest(s.ctx, store, s.addr)
	require.NoError(t, err)
	objects, err := store.List(s.ctx, segmentPrefix(s.addr))
	require.NoError(t, err)
	require.Len(t, objects, len(m.Segments), "each object is listed, and each that is listed is there")
	s.trim()
	require.Empty(t, s.logged())
}

func ids(records []codec.Record) (list []codec.ID) {
	for i := range records {
		list = append(list, records[i].ID)
	}
	return list
}

// TestTwoArchivers: two at once, who both hold the right as a frozen one believes, make each object once.
func TestTwoArchivers(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append(300)
		want := s.logged()
		store, err := OpenDirectory("file://" + t.TempDir())
		require.NoError(t, err)
		var wait sync.WaitGroup
		failed := make(chan error, 4)
		for range 4 {
			a := s.archiver(store)
			wait.Go(func() {
				for more := true; more; {
					var err error
					if _, more, err = a.Turn(s.ctx, true); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		wait.Wait()
		close(failed)
		for err := range failed {
			t.Log(err)
		}
		s.all(s.archiver(store))
		require.Equal(t, want, s.archived(store))
		m, err := readManifest(s.ctx, store, s.addr)
		require.NoError(t, err)
		objects, err := store.List(s.ctx, segmentPrefix(s.addr))
		require.NoError(t, err)
		require.Len(t, objects, len(m.Segments))
	})
}

// TestFrozen (B8): one whose right was taken marks nothing; and one whose manifest number was deleted meanwhile is told.
func TestFrozen(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	store := &Memory{}
	frozen := s.archiver(store)
	m, err := readManifest(s.ctx, store, s.addr)
	require.NoError(t, err)
	require.NoError(t, s.right.Release(s.ctx))
	_, _, err = frozen.Turn(s.ctx, true)
	require.ErrorIs(t, err, stream.ErrSweepLost)
	require.Empty(t, store.objects)
	held, _, err := s.right.Take(s.ctx)
	require.NoError(t, err)
	require.True(t, held)
	for range manifestsKept + 3 {
		s.append(1)
		s.all(s.archiver(store))
	}
	objects, err := store.List(s.ctx, manifestPrefix(s.addr))
	require.NoError(t, err)
	require.Len(t, objects, manifestsKept)
	require.ErrorIs(t, m.write(s.ctx, store, s.addr), ErrExists)
	require.Len(t, s.archived(store), 2*(1+manifestsKept+3))
}

// TestLostTail: where the server has lost what was archived, new ids are above it, and the archive goes on; entries below the
// archive's last that it does not have stop it.
func TestLostTail(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append(10)
		store := &Memory{}
		want := s.logged()
		top := want[len(want)-1].Addr
		s.all(s.archiver(store))
		last := m(t, s, store).last()
		s.do("XTRIM", s.addr.LogKey(), "MAXLEN", "0")
		s.do("DEL", s.addr.LogKey())
		s.do("HSET", s.addr.RetentionKey(), "mark", want[3].Position.Entry.String())
		s.append(1)
		require.Equal(t, top, last)
		a := s.archiver(store)
		s.all(a)
		s.append(1)
		s.all(a)
		require.Len(t, s.archived(store), len(want)+4)

		// the log of another deployment, in the same place
		later := codec.EntryID{Ms: m(t, s, store).last().Ms + 50_000}
		foreign := filled(t, origin{s.addr, server.identity}, []codec.Entry{{ID: later, Fields: []string{"m", "x"}}})
		var stray *StrayError
		require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), stream.Retention{}))
		require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
		_, _, err := s.archiver(foreign).Turn(s.ctx, true)
		require.ErrorAs(t, err, &stray)
		require.Zero(t, s.trim())

		var behind *BehindError
		s.all(s.archiver(store))
		_, _, err = s.archiver(&Memory{}).Turn(s.ctx, true)
		require.ErrorAs(t, err, &behind)
	})
}

func (s *stage) do(args ...string) {
	s.t.Helper()
	s.server.Command(s.t, args...)
}

func m(t testing.TB, s *stage, store Store) *manifest {
	m, err := readManifest(s.ctx, store, s.addr)
	require.NoError(t, err)
	return m
}

// TestExpire: segments older than the archive's max age go, from the manifest first; what a crash left goes with the next.
func TestExpire(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	store := &Memory{}
	for range 3 {
		s.append(1)
		s.all(s.archiver(store))
	}
	s.policy.ArchiveAge = time.Millisecond
	require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
	orphan := segmentName(s.addr, codec.EntryID{Ms: 1}, codec.EntryID{Ms: 2})
	require.NoError(t, store.Create(s.ctx, orphan, bytes.NewReader(nil), 0))
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) {
		_, _, err := s.archiver(store).Turn(s.ctx, true)
		require.NoError(t, err)
		left := m(t, s, store)
		return len(left.Segments) == 0, fmt.Sprint(left)
	})
	objects, err := store.List(s.ctx, segmentPrefix(s.addr))
	require.NoError(t, err)
	require.Empty(t, objects)
	s.append(1)
	s.policy.ArchiveAge = 0
	require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
	require.Equal(t, 1, s.all(s.archiver(store)).Segments)
}

// TestExpireIsFenced: who has lost the right meanwhile deletes nothing, and says nothing to be gone.
func TestExpireIsFenced(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	store := &Memory{}
	s.all(s.archiver(store))
	s.policy.ArchiveAge = time.Millisecond
	require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
	frozen, before := s.archiver(store), m(t, s, store)
	s.append(1)
	require.NoError(t, s.right.Release(s.ctx))
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) {
		_, err := frozen.expire(s.ctx, m(t, s, store))
		return errors.Is(err, stream.ErrSweepLost), fmt.Sprint(err)
	})
	require.Equal(t, before, m(t, s, store))
	require.Len(t, s.archived(store), 2)
}

// hooked is a store of which somebody does something when it is read.
type hooked struct {
	Store
	read func()
}

func (h *hooked) ReadAt(ctx context.Context, name string, p []byte, at int64) (int, error) {
	h.read()
	return h.Store.ReadAt(ctx, name, p, at)
}

// TestStrayComesMeanwhile: an entry that the log, which had lost its end, gives below the archive's last while that is looked for, is not
// taken for archived.
func TestStrayComesMeanwhile(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		later := codec.EntryID{Ms: s.entries()[0].ID.Ms + 50_000}
		store := filled(t, origin{s.addr, s.identity()}, append(s.entries(), codec.Entry{ID: later, Fields: []string{"m", "x"}}))
		came := 0
		h := &hooked{store, func() {
			if came++; came == 3 { // of the manifest, twice, and then of the segment
				s.append(1)
			}
		}}
		_, _, err := s.archiver(h).Turn(s.ctx, true)
		require.ErrorIs(t, err, stream.ErrLogMoved)
		var stray *StrayError
		_, _, err = s.archiver(store).Turn(s.ctx, true)
		require.ErrorAs(t, err, &stray)
		require.Zero(t, s.trim())
		require.Len(t, s.logged(), 4)
	})
}

// TestOtherStoreInItsPlace: of a stream whose store has lost what it had, another store gets what the log still has, nothing goes
// meanwhile, and it says what it lacks; so does the first one when it is set again.
func TestOtherStoreInItsPlace(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		before := s.policy
		lost := &Memory{}
		s.all(s.archiver(lost)) // what it keeps
		kept := m(t, s, lost)
		store := &Memory{objects: map[string][]byte{}}
		for name, data := range lost.objects {
			store.objects[name] = data
		}
		s.append(3)
		s.all(s.archiver(lost))
		require.EqualValues(t, 4, s.trim())
		s.append(2)
		var behind *BehindError
		_, _, err := s.archiver(store).Turn(s.ctx, true)
		require.ErrorAs(t, err, &behind)
		first := s.logged()[0].Addr
		gapOf := func(store Store, from codec.EntryID) (n int, gap *stream.GapError) {
			t.Helper()
			r, err := NewReader(store, ReaderConfig{Address: s.addr.String()})
			require.NoError(t, err)
			for _, err := range r.Range(s.ctx, from, codec.MaxEntryID) {
				if err != nil {
					require.ErrorAs(t, err, &gap)
					break
				}
				n++
			}
			return n, gap
		}
		s.policy.Archive = "file:///other"
		require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
		require.Zero(t, s.trim())
		s.policy = before
		require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
		require.Zero(t, s.trim())
		s.all(s.archiver(store))
		n, gap := gapOf(store, codec.EntryID{})
		require.Equal(t, 2, n)
		require.Equal(t, stream.GapError{Stream: s.addr.String(), From: kept.last().Next(), First: first}, *gap)

		s.policy.Archive = "file:///other"
		require.NoError(t, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
		other := &Memory{}
		s.all(s.archiver(other))
		n, gap = gapOf(other, kept.last())
		require.Zero(t, n)
		require.Equal(t, stream.GapError{Stream: s.addr.String(), From: kept.last(), First: first}, *gap)
		n, gap = gapOf(other, codec.EntryID{})
		require.Equal(t, 4, n)
		require.Nil(t, gap)
	})
}

// TestAnotherWentFurther: a segment that was chosen is given up when the archive has its beginning by another one.
func TestAnotherWentFurther(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(5)
	want, entries := s.logged(), s.entries()
	_, err := s.right.Choose(s.ctx, s.addr.Stream, s.policy, codec.EntryID{}, entries[3].ID, -time.Minute)
	require.NoError(t, err)
	store := filled(t, origin{s.addr, s.identity()}, entries[:2])
	s.all(s.archiver(store))
	require.Equal(t, want, s.archived(store))
	require.EqualValues(t, 6, s.trim())
}

// TestDroppedMeanwhile: what a hard cap takes of a segment that is chosen and not read yet is said to be lost; what was read is not.
func TestDroppedMeanwhile(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(5)
	entries := s.entries()
	chosen, err := s.right.Choose(s.ctx, s.addr.Stream, s.policy, codec.EntryID{}, entries[5].ID, -time.Minute)
	require.NoError(t, err)
	drops := func(to int) {
		s.do("XTRIM", s.addr.LogKey(), "MINID", entries[to].ID.String())
		s.do("HSET", s.addr.RetentionKey(), tier.LostField, entries[to].ID.String())
	}
	drops(2)
	store := &Memory{}
	a := s.archiver(store)
	segment, err := a.segment(s.ctx, chosen)
	require.NoError(t, err)
	require.Equal(t, entries[2].ID, segment.Lost)
	drops(4)
	again, err := a.segment(s.ctx, chosen) // as who died then, and finds the object
	require.NoError(t, err)
	require.Equal(t, segment, again)
	s.all(a)
	r, err := NewReader(store, ReaderConfig{Address: s.addr.String()})
	require.NoError(t, err)
	for _, err := range r.Range(s.ctx, entries[1].ID, codec.MaxEntryID) {
		require.Equal(t, &stream.GapError{Stream: s.addr.String(), From: entries[1].ID, First: entries[2].ID.Prev()}, err) // of the pack's first message
		break
	}
}

// TestObjectThere: an object of the name that another version wrote is taken when it has all that the log has, and else it
// stops the archive.
func TestObjectThere(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(3)
	identity := s.identity()
	entries := s.entries()
	data, c := segmentOf(t, origin{tier.Address{Scope: "another", Stream: "name"}, identity}, entries)
	name := segmentName(s.addr, c.First, c.Last)
	store := &Memory{}
	require.NoError(t, store.Create(s.ctx, name, bytes.NewReader(data), int64(len(data))))
	require.EqualValues(t, 4, s.all(s.archiver(store)).Entries)
	require.Equal(t, s.logged(), s.archived(store))
	for lives := 1; ; lives++ { // a store that fails meanwhile is no damage
		require.Less(t, lives, 100)
		s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
		s.append(3)
		entries := s.entries()
		store := &Memory{}
		data, c := segmentOf(t, origin{tier.Address{Scope: "another", Stream: "name"}, s.identity()}, entries)
		require.NoError(t, store.Create(s.ctx, segmentName(s.addr, c.First, c.Last), bytes.NewReader(data), int64(len(data))))
		_, _, err := s.archiver(&mortal{store, lives, false}).Turn(s.ctx, true)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, errDied)
		require.False(t, errors.As(err, new(*DamageError)), "%v", err)
	}
	for _, bad := range [][]byte{data[:len(data)/2], first(segmentOf(t, origin{s.addr, identity}, entries[1:]))} {
		s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
		s.append(3)
		entries := s.entries()
		store := &Memory{}
		require.NoError(t, store.Create(s.ctx, segmentName(s.addr, entries[0].ID, entries[3].ID), bytes.NewReader(bad), int64(len(bad))))
		_, _, err := s.archiver(store).Turn(s.ctx, true)
		var damage *DamageError
		require.ErrorAs(t, err, &damage)
		require.Zero(t, s.trim())
	}
}

func first[A, B any](a A, _ B) A { return a }

func (s *stage) identity() codec.Identity {
	r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(s.t, err)
	identity, err := r.Identity(s.ctx)
	require.NoError(s.t, err)
	return identity
}

func (s *stage) entries() (list []codec.Entry) {
	r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(s.t, err)
	for e, err := range r.Entries(s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		list = append(list, e)
	}
	return list
}

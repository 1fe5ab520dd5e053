package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// filled is a store whose manifest lists segments of these entries.
func filled(t require.TestingT, o origin, parts ...[]codec.Entry) *Memory {
	store, ctx := &Memory{}, context.Background()
	m, err := readManifest(ctx, store, o.address)
	require.NoError(t, err)
	for _, entries := range parts {
		data, c := segmentOf(t, o, entries)
		name := segmentName(o.address, c.First, c.Last)
		require.NoError(t, store.Create(ctx, name, bytes.NewReader(data), int64(len(data))))
		in, err := openSegment(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		m.Segments = append(m.Segments, Segment{
			Name: name, Contents: c, After: m.last(), Bytes: int64(len(data)), SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Footer: in.in.sum,
		})
		require.NoError(t, m.write(ctx, store, o.address))
	}
	return store
}

// TestRange: any range is what the filter over all messages gives, whatever segments they are in.
func TestRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom([]origin{server, host}).Draw(t, "origin")
		entries := genEntries(t, o)
		cut := rapid.IntRange(0, len(entries)-1).Draw(t, "cut")
		parts := [][]codec.Entry{entries[cut:]}
		if cut > 0 {
			parts = [][]codec.Entry{entries[:cut], entries[cut:]}
		}
		r, err := NewReader(filled(t, o, parts...), ReaderConfig{Address: o.address.String()})
		require.NoError(t, err)
		place := rapid.Custom(func(t *rapid.T) codec.EntryID {
			e := rapid.SampledFrom(entries).Draw(t, "entry").ID
			return codec.EntryID{Ms: e.Ms, Seq: e.Seq - uint64(rapid.IntRange(0, int(min(e.Seq, 9))).Draw(t, "below"))}
		})
		from, to := place.Draw(t, "from"), place.Draw(t, "to")
		var want, got []codec.Record
		for _, e := range entries {
			for _, record := range o.identity.Records(nil, e) {
				if record.Addr.Compare(from) >= 0 && record.Addr.Compare(to) <= 0 {
					want = append(want, record)
				}
			}
		}
		for record, err := range r.Range(context.Background(), from, to) {
			require.NoError(t, err)
			got = append(got, record)
		}
		require.Equal(t, want, got)
	})
}

// TestRangeBelowWhatIsGone: what the archive's own max age took is said to be gone.
func TestRangeBelowWhatIsGone(t *testing.T) {
	r, err := NewReader(&Memory{}, ReaderConfig{Address: "shop/orders"})
	require.NoError(t, err)
	for range r.Range(context.Background(), codec.EntryID{}, codec.MaxEntryID) {
		t.Fatal("of an archive that there is not")
	}
	store, ctx := &Memory{}, context.Background()
	m := manifest{Schema: 1, Stream: "shop/orders", Gone: codec.EntryID{Ms: 10}}
	require.NoError(t, m.write(ctx, store, orders))
	r.store = store
	for _, err := range r.Range(ctx, codec.EntryID{Ms: 10}, codec.MaxEntryID) {
		require.ErrorIs(t, err, stream.ErrTrimmed)
	}
	for range r.Range(ctx, codec.EntryID{Ms: 11}, codec.MaxEntryID) {
		t.Fatal("there is nothing")
	}
}

// TestDamage: of bytes that are not what was written, whatever they are, nobody gets a message or a panic, and the entries are
// named; one that is missing, one that was cut, one of a newer schema.
func TestDamage(t *testing.T) {
	ctx := context.Background()
	entries := make([]codec.Entry, 300)
	for i := range entries {
		body, err := codec.AppendMessage(nil, &codec.Message{Type: "t", Key: fmt.Sprint(i), Data: []byte("data")})
		require.NoError(t, err)
		entries[i] = codec.Entry{ID: codec.EntryID{Ms: ms0 + uint64(i)}, Fields: []string{"m", string(body)}}
	}
	store := filled(t, server, entries)
	r, err := NewReader(store, ReaderConfig{Address: "shop/orders"})
	require.NoError(t, err)
	all, err := r.Segments(ctx)
	require.NoError(t, err)
	name := all.List[0].Name
	whole := store.objects[name]
	read := func() (n int, err error) {
		for _, err := range r.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	n, err := read()
	require.NoError(t, err)
	require.Equal(t, 300, n)
	var damage *DamageError
	for cut := 0; cut < len(whole); cut += 53 {
		store.objects[name] = whole[:cut]
		_, err := read()
		require.ErrorAs(t, err, &damage)
		require.Equal(t, entries[0].ID, damage.First)
		require.Equal(t, entries[299].ID, damage.Last)
	}
	delete(store.objects, name)
	_, err = read()
	require.ErrorAs(t, err, &damage)
	require.ErrorIs(t, err, ErrAbsent)
}

// TestDamagedBits: whichever bit of a segment has changed, what is read of it is right, or it is refused, and no memory is taken that it has no right to.
func TestDamagedBits(t *testing.T) {
	entries := make([]codec.Entry, 40)
	for i := range entries {
		body, err := codec.AppendMessage(nil, &codec.Message{Type: "t", Key: fmt.Sprint(i), Data: []byte("data"), Headers: codec.Headers{{Key: "a", Value: fmt.Sprint(i)}}})
		require.NoError(t, err)
		entries[i] = codec.Entry{ID: codec.EntryID{Ms: ms0 + uint64(i)}, Fields: []string{"m", string(body)}}
		if i%7 == 0 {
			entries[i].Fields = []string{"of", "another"}
		}
	}
	store := filled(t, server, entries)
	r, err := NewReader(store, ReaderConfig{Address: "shop/orders"})
	require.NoError(t, err)
	read := func() (list []codec.Record, err error) {
		for record, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
			if err != nil {
				return nil, err
			}
			list = append(list, record)
		}
		return list, nil
	}
	want, err := read()
	require.NoError(t, err)
	name := segmentName(orders, entries[0].ID, entries[39].ID)
	whole := store.objects[name]
	require.Less(t, allocates(func() {
		for i := 4; i < len(whole); i += 5 {
			store.objects[name] = bytes.Clone(whole)
			store.objects[name][i] ^= 1 << (i / 5 % 8)
			if got, err := read(); err == nil {
				require.Equal(t, want, got, "byte %d", i)
			}
		}
	})/uint64(len(whole)/5), uint64(1<<20))
}

// TestExpiresMeanwhile: a segment that the archive's max age takes from under a reader is gone, and no damage.
func TestExpiresMeanwhile(t *testing.T) {
	ctx := t.Context()
	entries := make([]codec.Entry, 30)
	for i := range entries {
		body, err := codec.AppendMessage(nil, &codec.Message{Type: "t"})
		require.NoError(t, err)
		entries[i] = codec.Entry{ID: codec.EntryID{Ms: ms0 + uint64(i)}, Fields: []string{"m", string(body)}}
	}
	pack, err := codec.AppendPack(nil, 2, []byte(entries[20].Fields[1]+entries[20].Fields[1]), codec.NoCompression)
	require.NoError(t, err)
	entries[20] = codec.Entry{ID: codec.EntryID{Ms: ms0 + 20, Seq: 1}, Fields: []string{"b", string(pack)}}
	store := filled(t, server, entries[:10], entries[10:20], entries[20:])
	r, err := NewReader(store, ReaderConfig{Address: orders.String()})
	require.NoError(t, err)
	n := 0
	for _, err := range r.Range(ctx, entries[0].ID, codec.MaxEntryID) {
		if n == 10 {
			require.Equal(t, &stream.TrimmedError{Stream: orders.String(), First: codec.EntryID{Ms: ms0 + 20}}, err) // of the pack's first message
			return
		}
		require.NoError(t, err)
		if n++; n == 1 {
			m, err := readManifest(ctx, store, orders)
			require.NoError(t, err)
			for _, s := range m.Segments[:2] {
				delete(store.objects, s.Name)
			}
			m.Gone, m.Segments = m.Segments[1].Last, m.Segments[2:]
			require.NoError(t, m.write(ctx, store, orders))
		}
	}
	t.Fatal("it was read though it is not there")
}

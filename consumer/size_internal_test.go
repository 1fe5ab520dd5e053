package consumer

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

func TestFetchSizes(t *testing.T) {
	pack := func(n int) []tier.Leased { return []tier.Leased{leasedEntry(1, 1, make([]bool, n)...)} }
	var s size
	r := room{messages: 200, read: 200, take: 200, bytes: 1 << 30}
	require.Equal(t, 1, r.entries(r.read, s), "the first read brings one entry, which may be a pack")
	s.learn(nil)
	require.Equal(t, 1, r.entries(r.read, s))
	s.learn(pack(1))
	require.Equal(t, 200, r.entries(r.read, s))
	s.learn(pack(100))
	require.Equal(t, 2, r.entries(r.read, s))
	s.learn(pack(1))
	require.Equal(t, 2, r.entries(r.read, s), "packs may come again")
	for range 100 {
		s.learn(pack(1))
	}
	require.Equal(t, 200, r.entries(r.read, s))
	s.learn(pack(4096))
	require.Equal(t, 1, r.entries(r.read, s))

	require.False(t, room{messages: 3, read: 0, hungry: true, bytes: 100}.worthReading(100, 100))
	require.True(t, room{messages: 3, read: 3, hungry: true, bytes: 100}.worthReading(100, 100))
	require.False(t, room{messages: 3, read: 3, bytes: 100}.worthReading(100, 100))
	require.True(t, room{messages: 25, read: 25, bytes: 100}.worthReading(100, 100))
	require.False(t, room{messages: 25, read: 25, bytes: 3}.worthReading(100, 100))

	two := size{messages: 2, bytes: 30}
	require.Equal(t, room{messages: 80, read: 80, take: 100, bytes: 700}, room{messages: 100, read: 100, take: 100, bytes: 1000, hungry: true}.without(10, two))
	require.False(t, room{messages: 100, read: 100, bytes: 1000}.without(50, two).worthReading(100, 1000), "all room is taken by what comes")
}

// B70: as many are asked for as fit by bytes, and never more than one fetch may bring.
func TestFetchSizesByBytes(t *testing.T) {
	weighing := func(bytes int) []tier.Leased {
		l := leasedEntry(1, 1, false)
		l.Bytes = bytes - perMessage
		return []tier.Leased{l}
	}
	var s size
	r := room{messages: 10_000, read: 2000, take: 2000, bytes: 64 << 20}
	s.learn(weighing(1000))
	require.Equal(t, maxRead, r.entries(r.read, s))
	s.learn(weighing(1 << 20))
	require.Equal(t, 1, r.entries(r.read, s), "large ones count at once: a fetch has to come in time")
	s.learn(weighing(1000))
	require.Equal(t, 1, r.entries(r.read, s), "and may come again")
	require.Equal(t, 1, room{messages: 10_000, read: 2000, take: 2000, bytes: 1000}.entries(2000, s), "what does not fit comes alone")
	s.learn(weighing(100 << 20))
	require.Equal(t, 1, r.entries(r.read, s), "what is above the bound comes alone")
	for range 200 {
		s.learn(weighing(1000))
	}
	require.Equal(t, maxRead, r.entries(r.read, s))
}

func TestTrackerBytes(t *testing.T) {
	tr := newTracker(t.Context(), 100, 4000, policy{}, None)
	l := leasedEntry(1, 1, false, false)
	l.Bytes = 3000 - 2*perMessage
	tr.take([]tier.Leased{l})
	require.Equal(t, room{messages: 98, bytes: 1000, read: 98, take: 98}, tr.room(1))
	big := leasedEntry(2, 1, false)
	big.Bytes = 1 << 20
	tr.take([]tier.Leased{big, l})
	require.Equal(t, room{}, tr.room(1), "without room for bytes there is none, for what is to be taken over neither")
	tr.release(tier.Held{Entry: entryAt(2)}, tr.due)
	require.Equal(t, 1000, tr.room(1).bytes)
}

// What is done does not stay in memory for what was fetched with it.
func TestLargeFlightsShareNothing(t *testing.T) {
	tr := newTracker(t.Context(), 100, 1<<30, policy{}, None)
	freed := make(chan int, 10)
	leased := make([]tier.Leased, 10)
	for i := range leased {
		leased[i] = leasedEntry(i, 1, false)
		data := make([]byte, 1<<16)
		runtime.AddCleanup(&data[0], func(i int) { freed <- i }, i)
		leased[i].Bytes, leased[i].Records[0].Data = len(data), data
	}
	tr.take(leased)
	leased = nil
	begun := make([]*flight, 10)
	for i := range begun {
		w, _ := tr.begin()
		begun[i] = w.f
	}
	for _, f := range begun[1:] {
		tr.remove(f)
	}
	first := begun[0]
	tr.begin() // which takes the last one out of the queue
	begun = nil
	for range 9 {
		runtime.GC()
		require.NotZero(t, <-freed)
	}
	runtime.KeepAlive(first)
}

package capacity_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/capacity"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

// TestAgainstServer: what is worked out is what a server says, within a twentieth; a file that was rewritten is no larger than the
// memory, of data that do not compress.
func TestAgainstServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ size, pack, n int }{
		{50, 1, 3000},
		{200, 1, 2000},
		{500, 1, 2000},
		{1000, 1, 1000},
		{2000, 1, 1000},
		{3000, 1, 600},
		{4000, 1, 600},
		{16_000, 1, 200},
		{64_000, 1, 100},
		{50, 100, 5000},
		{200, 100, 4000},
		{1000, 10, 2000},
		{1000, 100, 2000},
		{16_000, 4, 200},
	} {
		t.Run(fmt.Sprintf("%d bytes, %d an entry", tc.size, tc.pack), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, tiertest.Valkey, "--appendonly", "yes", "--appendfsync", "no")
			client := tiertest.Dial(t, s)
			addr := tier.Address{Scope: tiertest.Scope(t), Stream: "orders"}
			got := load(t, client, s, addr, tc.size, tc.pack, tc.n)
			want, err := capacity.Load{
				Size: tc.size, Key: len("customer-1"), Type: len("order.placed"), Pack: tc.pack, Rate: float64(tc.n), Keep: time.Second, Groups: 1,
			}.Estimate()
			require.NoError(t, err)
			t.Logf("estimated %+v, measured %+v", want, got)
			require.InEpsilon(t, got.memory, want.Memory, 0.05, "memory")
			require.InEpsilon(t, got.in, want.NetworkIn, 0.05, "network in")
			require.InEpsilon(t, got.out, want.NetworkOut, 0.05, "network out")
			require.InEpsilon(t, got.file, want.File, 0.05, "file")
			require.LessOrEqual(t, 3*got.rewritten, want.FileMost, "file, rewritten")
		})
	}
}

// measured is what a server says, in bytes.
type measured struct{ memory, in, out, file, rewritten float64 }

// load appends n messages, and lets a group read and settle them.
func load(t *testing.T, client *tier.Client, s *tiertest.Server, addr tier.Address, size, pack, n int) (m measured) {
	t.Helper()
	ctx := t.Context()
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: addr.String(), Pack: pack})
	require.NoError(t, err)
	_, err = w.Declare(ctx)
	require.NoError(t, err)
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: addr.String(), Name: "mailer", Start: stream.Head()})
	require.NoError(t, err)
	require.NoError(t, g.Create(ctx))
	member, err := g.Join(ctx, "c")
	require.NoError(t, err)
	_, err = member.Sync(ctx)
	require.NoError(t, err)

	_, err = w.AppendBatch(ctx, []codec.Message{{Type: "order.placed", Data: []byte("x")}}) // the server has the script then
	require.NoError(t, err)
	consume(t, member, 1)
	noise := make([]byte, n*size)
	_, err = rand.Read(noise)
	require.NoError(t, err)
	in, out, file := number(t, s, "stats", "total_net_input_bytes"), number(t, s, "stats", "total_net_output_bytes"), number(t, s, "persistence", "aof_current_size")
	for at := 0; at < n; at += 500 {
		list := make([]codec.Message, min(500, n-at))
		for i := range list {
			list[i] = codec.Message{Type: "order.placed", Key: "customer-" + strconv.Itoa(i%10), Data: noise[(at+i)*size:][:size]}
		}
		_, err := w.AppendBatch(ctx, list)
		require.NoError(t, err)
	}
	consume(t, member, n/pack)
	m.in, m.out = number(t, s, "stats", "total_net_input_bytes")-in, number(t, s, "stats", "total_net_output_bytes")-out
	m.file = number(t, s, "persistence", "aof_current_size") - file
	usage := s.Command(t, "MEMORY", "USAGE", addr.LogKey(), "SAMPLES", "0")
	bytes, err := usage.AsInt64()
	require.NoError(t, err)
	m.memory = float64(bytes)
	s.Command(t, "BGREWRITEAOF")
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) {
		return number(t, s, "persistence", "aof_rewrite_in_progress")+number(t, s, "persistence", "aof_rewrite_scheduled") == 0, "the file is not rewritten"
	})
	m.rewritten = number(t, s, "persistence", "aof_base_size")
	return m
}

// consume reads so many entries and settles them.
func consume(t *testing.T, member *stream.Member, entries int) {
	t.Helper()
	for entries > 0 {
		leased, err := member.Read(t.Context(), 100, time.Second)
		require.NoError(t, err)
		require.NotEmpty(t, leased)
		ids := make([]codec.EntryID, len(leased))
		for i := range leased {
			ids[i] = leased[i].Entry
		}
		_, err = member.Settle(t.Context(), ids)
		require.NoError(t, err)
		entries -= len(leased)
	}
}

// number is one of INFO.
func number(t *testing.T, s *tiertest.Server, section, name string) float64 {
	t.Helper()
	info := s.Command(t, "INFO", section)
	text, err := info.ToString()
	require.NoError(t, err)
	_, after, found := strings.Cut(text, "\n"+name+":")
	require.True(t, found, name)
	text, _, _ = strings.Cut(after, "\r")
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return n
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	plain := capacity.Load{Size: 500, Key: 12, Type: 12, Rate: 5000, Keep: 24 * time.Hour, Groups: 2, Replicas: 1}
	e, err := plain.Estimate()
	require.NoError(t, err)
	require.InDelta(t, 432e6, e.Messages, 0)
	require.InDelta(t, e.PerMessage*e.Messages, e.Memory, 1)
	with := func(change func(*capacity.Load)) capacity.Estimate {
		l := plain
		change(&l)
		e, err := l.Estimate()
		require.NoError(t, err)
		return e
	}
	packed := with(func(l *capacity.Load) { l.Pack = 100 })
	compressed := with(func(l *capacity.Load) { l.Pack, l.Compressed = 100, 0.25 })
	require.Less(t, packed.Memory, e.Memory)
	require.InEpsilon(t, packed.Memory/4, compressed.Memory, 0.05)
	require.InEpsilon(t, packed.NetworkIn/4, compressed.NetworkIn, 0.1) // small ones go by a script
	require.InDelta(t, 30, with(func(l *capacity.Load) { l.Headers = 30 }).Encoded-e.Encoded, 0)
	require.InDelta(t, e.NetworkOut, with(func(l *capacity.Load) { l.Replicas = 0 }).NetworkOut+e.File, 1)
	for _, tc := range []struct {
		change func(*capacity.Load)
		want   string
	}{
		{func(l *capacity.Load) { l.Size = -1 }, "Size: want 0 to 8388608"},
		{func(l *capacity.Load) { l.Rate = 0 }, "Rate: want above 0"},
		{func(l *capacity.Load) { l.Keep = 0 }, "Keep: want above 0"},
		{func(l *capacity.Load) { l.Pack = 4097 }, "Pack: want 0 to 4096"},
		{func(l *capacity.Load) { l.Pack, l.Compressed = 2, 1.5 }, "Compressed: want 0 to 1"},
		{func(l *capacity.Load) { l.Compressed = 0.5 }, "only packs are compressed"},
		{func(l *capacity.Load) { l.Groups = -1 }, "Groups: want 0 or more"},
		{func(l *capacity.Load) { l.Replicas = -1 }, "Replicas: want 0 or more"},
	} {
		l := plain
		tc.change(&l)
		_, err := l.Estimate()
		require.ErrorIs(t, err, capacity.ErrLoad)
		require.ErrorContains(t, err, tc.want)
	}
}

// TestDocument: the table in docs/capacity.md is what is worked out.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/capacity.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 8)
	for _, row := range rows {
		size, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		for i, l := range []capacity.Load{{}, {Pack: 100}, {Pack: 100, Compressed: 0.3}} {
			l.Size, l.Key, l.Type, l.Rate, l.Keep = size, 12, 12, 1, time.Second
			e, err := l.Estimate()
			require.NoError(t, err)
			require.Equal(t, row[2+i], strconv.FormatFloat(e.PerMessage, 'f', 0, 64), "%d bytes, %+v", size, l)
		}
	}
}

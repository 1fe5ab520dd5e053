package arrowtest_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

// row is a message, as either side has it.
type row struct{ ID, Entry, Type, Key, Format, Data, Source string }

// TestArrowReadsSegments: the earthquakes of a year's first days go in, in packs too, are archived and trimmed, and what Arrow reads in the objects is
// what the one reader reads: as many as the file has, with their ids and fields.
func TestArrowReadsSegments(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := tiertest.Shared(t, tiertest.Valkey)
	client := tiertest.Dial(t, server)
	addr := tier.Address{Scope: tiertest.AuditedScope(t, server), Stream: "earthquakes"}
	quakes := earthquakes(t)
	for i, half := range [][]codec.Message{quakes[:len(quakes)/2], quakes[len(quakes)/2:]} {
		w, err := stream.NewWriter(client, stream.WriterConfig{Address: addr.String(), Pack: 1 + 9*i})
		require.NoError(t, err)
		_, err = w.AppendBatch(ctx, half)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	require.NoError(t, stream.SetRetention(ctx, client, addr.String(), stream.Retention{Settled: true, Exact: true, Archive: "file://" + dir, SegmentBytes: 60_000}))
	sweeper, err := retention.NewSweeper(client, retention.SweeperConfig{Scope: addr.Scope, Settle: time.Millisecond})
	require.NoError(t, err)
	tier.Pause(ctx, 5*time.Millisecond)
	_, err = sweeper.Archive(ctx)
	require.NoError(t, err)
	_, err = sweeper.Once(ctx)
	require.NoError(t, err)
	h, err := stream.HoldingsOf(ctx, client, addr.String())
	require.NoError(t, err)
	require.Zero(t, h.Length)

	store, err := archive.OpenDirectory("file://" + dir)
	require.NoError(t, err)
	archived, err := archive.NewReader(store, archive.ReaderConfig{Address: addr.String()})
	require.NoError(t, err)
	one, err := retention.NewReader(client, retention.ReaderConfig{Address: addr.String(), Archive: archived})
	require.NoError(t, err)
	var want []row
	for r, err := range one.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		source, _ := r.Headers.Get("source")
		want = append(want, row{r.ID.String(), r.Position.Entry.String(), r.Type, r.Key, "bytes", string(r.Data), source})
	}
	require.Len(t, want, len(quakes))
	for i := range want {
		require.Equal(t, string(quakes[i].Data), want[i].Data)
	}
	segments, err := archived.Segments(ctx)
	require.NoError(t, err)
	require.Greater(t, len(segments.List), 1)
	var got []row
	for _, s := range segments.List {
		rows := read(t, filepath.Join(dir, s.Name))
		require.Len(t, rows, int(s.Messages))
		got = append(got, rows...)
	}
	require.Equal(t, want, got)
}

// earthquakes are the lines of the file as messages.
func earthquakes(t *testing.T) (ms []codec.Message) {
	f, err := os.Open("testdata/earthquakes-2016.csv")
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, line := range lines[1:] {
		fields := map[string]string{}
		for i, name := range lines[0] {
			fields[name] = line[i]
		}
		data, err := json.Marshal(fields)
		require.NoError(t, err)
		ms = append(ms, codec.Message{Type: "earthquake", Key: fields["MagType"], Headers: codec.Headers{{Key: "source", Value: fields["Source"]}}, Data: data})
	}
	require.Len(t, ms, 1000)
	return ms
}

// read reads a segment.
func read(t *testing.T, name string) (rows []row) {
	f, err := file.OpenParquetFile(name, false)
	require.NoError(t, err)
	defer f.Close()
	for g := range f.NumRowGroups() {
		texts := map[string][]string{}
		for c := range f.MetaData().Schema.NumColumns() {
			path := f.MetaData().Schema.Column(c).Path()
			if slices.Contains([]string{"id", "entry", "type", "key", "format", "data", "headers.key_value.key", "headers.key_value.value"}, path) {
				texts[path] = column(t, f.RowGroup(g), c)
			}
		}
		for i := range int(f.RowGroup(g).NumRows()) {
			require.Equal(t, "source", texts["headers.key_value.key"][i])
			rows = append(rows, row{texts["id"][i], texts["entry"][i], texts["type"][i], texts["key"][i], texts["format"][i], texts["data"][i], texts["headers.key_value.value"][i]})
		}
	}
	return rows
}

// column are the values of a column that has one for each row.
func column(t *testing.T, g *file.RowGroupReader, c int) (list []string) {
	reader, err := g.Column(c)
	require.NoError(t, err)
	bytes, ok := reader.(*file.ByteArrayColumnChunkReader)
	require.True(t, ok)
	values := make([]parquet.ByteArray, g.NumRows())
	defined, repeated := make([]int16, g.NumRows()), make([]int16, g.NumRows())
	for len(list) < int(g.NumRows()) {
		rows, n, err := bytes.ReadBatch(g.NumRows(), values, defined, repeated)
		require.NoError(t, err)
		require.EqualValues(t, rows, n)
		require.Positive(t, n)
		for _, v := range values[:n] {
			list = append(list, string(v))
		}
	}
	return list
}

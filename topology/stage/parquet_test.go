package stage_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

type quake struct {
	ID      int64     `parquet:"id"`
	Network string    `parquet:"network,dict"`
	Mag     *float64  `parquet:"mag,optional"`
	At      time.Time `parquet:"at,timestamp(millisecond)"`
	Tags    []string  `parquet:"tags,list"`
	Place   struct {
		Lat float32 `parquet:"lat"`
	} `parquet:"place"`
}

// TestParquet: rows of Parquet are records, and a source of them goes on where another has ended; what JSON cannot hold is none.
func TestParquet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quakes.parquet")
	mag, none := 5.25, math.NaN()
	quakes := []quake{
		{ID: 9007199254740993, Network: "us", Mag: &mag, At: time.UnixMilli(1500), Tags: []string{"a", "b"}}, {Network: "\xff"}, {Network: "NC", Mag: &none}, {ID: 2, Network: "NN", At: time.UnixMilli(1)},
	}
	quakes[0].Place.Lat = 48.4
	require.NoError(t, parquet.WriteFile(path, quakes))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	first := `{"at":1500,"id":9007199254740993,"mag":5.25,"network":"us","place":{"lat":48.4},"tags":["a","b"]}`
	require.Equal(t, []string{
		first, `! column "network": not valid UTF-8: convert the file first, as with iconv`, "! json: unsupported value: NaN",
		`{"at":1,"id":2,"mag":null,"network":"NN","place":{"lat":0},"tags":[]}`,
	}, stage.RecordsOf(file, "parquet"))

	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	for range 2 { // the second one has nothing to do
		source, err := stage.NewSource(b.client, "quakes", stage.SourceConfig{To: b.address("in"), File: &stage.File{Path: path}, Key: "data.network", Data: "data.id"}, stage.Options{})
		require.NoError(t, err)
		require.NoError(t, source.Run(t.Context()))
	}
	require.Equal(t, []string{"us 9007199254740993", "NN 2"}, data(b.all("in")))

	bad := filepath.Join(t.TempDir(), "bad.parquet")
	require.NoError(t, os.WriteFile(bad, []byte("PAR1 and nothing else PAR1"), 0o600))
	source, err := stage.NewSource(b.client, "bad", stage.SourceConfig{To: b.address("in"), File: &stage.File{Path: bad}}, stage.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, source.Run(t.Context()), "is no Parquet")
}

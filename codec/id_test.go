package codec_test

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// idVectors is testdata/ids.json. Its "slots" belong to the keyspace.
type idVectors struct {
	Epoch int64 `json:"epoch_unix_ms"`
	Valid []struct {
		ID          string `json:"id"`
		Brand       string `json:"brand"`
		Snowflake   string `json:"snowflake"`
		UnixMs      int64  `json:"unix_ms"`
		Time        string `json:"time"`
		Node        int    `json:"node"`
		Seq         int    `json:"seq"`
		HostEntry   string `json:"host_entry"`
		ServerEntry string `json:"server_entry"`
	} `json:"valid"`
	Invalid []struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
		Bytes  int    `json:"bytes"`
	} `json:"invalid"`
	Windows []struct {
		T0         time.Time `json:"t0"`
		T1         time.Time `json:"t1"`
		HostFrom   string    `json:"host_from"`
		HostTo     string    `json:"host_to"`
		MinIDFloor string    `json:"minid_floor"`
	} `json:"windows"`
}

func loadIDs(t testing.TB) (v idVectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/ids.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &v))
	require.NotEmpty(t, v.Valid)
	require.NotEmpty(t, v.Invalid)
	require.NotEmpty(t, v.Windows)
	return v
}

func entryID(t testing.TB, s string) codec.EntryID {
	t.Helper()
	e, err := codec.ParseEntryID(s)
	require.NoError(t, err)
	return e
}

func TestIDVectors(t *testing.T) {
	vectors := loadIDs(t)
	require.Equal(t, int64(codec.Epoch), vectors.Epoch)
	for _, v := range vectors.Valid {
		t.Run(v.ID, func(t *testing.T) {
			id, err := codec.Parse(v.ID)
			require.NoError(t, err)
			require.Equal(t, v.ID, id.String())
			require.Equal(t, codec.Brand(v.Brand), id.Brand())
			require.Equal(t, v.Snowflake, strconv.FormatInt(id.Snowflake(), 10))
			require.Equal(t, v.UnixMs, id.UnixMs())
			require.Equal(t, v.Time, id.Time().Format("2006-01-02T15:04:05.000Z07:00"))
			require.Equal(t, v.Node, id.Node())
			require.Equal(t, v.Seq, id.Seq())
			require.Equal(t, v.HostEntry, id.HostEntry().String())
			require.Equal(t, v.ServerEntry, id.ServerEntry().String())

			again, err := codec.NewID(id.Brand(), id.Snowflake())
			require.NoError(t, err)
			require.Equal(t, id, again)
			again, err = codec.NewIDAt(id.Brand(), v.UnixMs, v.Node, v.Seq)
			require.NoError(t, err)
			require.Equal(t, id, again)
			again, ok := codec.HostID(id.Brand(), entryID(t, v.HostEntry))
			require.True(t, ok)
			require.Equal(t, id, again)
			again, ok = codec.ServerID(id.Brand(), v.Node, entryID(t, v.ServerEntry))
			require.True(t, ok)
			require.Equal(t, id, again)
		})
	}
}

func TestIDVectorsInvalid(t *testing.T) {
	for _, v := range loadIDs(t).Invalid {
		t.Run(v.Reason+" "+v.ID, func(t *testing.T) {
			require.Len(t, v.ID, v.Bytes)
			id, err := codec.Parse(v.ID)
			require.True(t, id.IsZero())
			require.ErrorIs(t, err, codec.ErrID)
			var ie *codec.IDError
			require.ErrorAs(t, err, &ie)
			require.Equal(t, codec.IDError{Value: v.ID, Reason: codec.Reason(v.Reason)}, *ie)
		})
	}
}

func TestWindowVectors(t *testing.T) {
	for _, v := range loadIDs(t).Windows {
		if v.MinIDFloor != "" {
			require.Equal(t, v.MinIDFloor, codec.FloorEntry(v.T0).String())
			continue
		}
		require.Equal(t, v.HostFrom, codec.FloorEntry(v.T0).String())
		lowest, err := codec.MinID("EVT", v.T0)
		require.NoError(t, err)
		require.Equal(t, v.HostFrom, lowest.HostEntry().String())
		highest, err := codec.MaxID("EVT", v.T1)
		require.NoError(t, err)
		require.Equal(t, v.HostTo, highest.HostEntry().String())
	}
}

func TestParseReasonsInOrder(t *testing.T) {
	tests := []struct {
		name, in string
		want     codec.Reason
	}{
		{"all wrong but the length comes first", "evt-", codec.ReasonLength},
		{"brand before alphabet", "evt-----------", codec.ReasonBrand},
		{"alphabet before range", "EVTzzzzzzzzzz-", codec.ReasonAlphabet},
		{"range last", "EVTAzL8n0Y58m8", codec.ReasonRange},
		{"wraps 64 bits to a small number", "EVTLygHa16AHYG", codec.ReasonRange}, // 2^64 + 0
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := codec.Parse(tt.in)
			var ie *codec.IDError
			require.ErrorAs(t, err, &ie)
			require.Equal(t, tt.want, ie.Reason)
		})
	}
}

func TestErrorsQuoteABoundedPart(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for name, parse := range map[string]func() error{
		"id":       func() error { _, err := codec.Parse(huge); return err },
		"brand":    func() error { _, err := codec.ParseBrand(huge); return err },
		"new id":   func() error { _, err := codec.NewID(codec.Brand(huge), 0); return err },
		"entry":    func() error { _, err := codec.ParseEntryID(huge); return err },
		"position": func() error { _, err := codec.ParsePosition("1-1#" + huge); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := parse()
			require.Error(t, err)
			require.Less(t, len(err.Error()), 200)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestNewIDRefuses(t *testing.T) {
	const end = codec.Epoch + 1<<41 // first millisecond past the 41 bits
	tests := []struct {
		name string
		make func() (codec.ID, error)
		want codec.Reason
	}{
		{"brand", func() (codec.ID, error) { return codec.NewID("ev", 1) }, codec.ReasonBrand},
		{"negative", func() (codec.ID, error) { return codec.NewID("EVT", -1) }, codec.ReasonRange},
		{"at: brand", func() (codec.ID, error) { return codec.NewIDAt("", codec.Epoch, 0, 0) }, codec.ReasonBrand},
		{"before epoch", func() (codec.ID, error) { return codec.NewIDAt("EVT", codec.Epoch-1, 0, 0) }, codec.ReasonRange},
		{"past 41 bits", func() (codec.ID, error) { return codec.NewIDAt("EVT", end, 0, 0) }, codec.ReasonRange},
		{"time overflows", func() (codec.ID, error) { return codec.NewIDAt("EVT", math.MinInt64, 0, 0) }, codec.ReasonRange},
		{"node", func() (codec.ID, error) { return codec.NewIDAt("EVT", codec.Epoch, 1024, 0) }, codec.ReasonRange},
		{"node below", func() (codec.ID, error) { return codec.NewIDAt("EVT", codec.Epoch, -1, 0) }, codec.ReasonRange},
		{"seq", func() (codec.ID, error) { return codec.NewIDAt("EVT", codec.Epoch, 0, 4096) }, codec.ReasonRange},
		{"min", func() (codec.ID, error) { return codec.MinID("EVT", time.Time{}) }, codec.ReasonRange},
		{"max", func() (codec.ID, error) { return codec.MaxID("EVT", time.UnixMilli(end)) }, codec.ReasonRange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := tt.make()
			require.True(t, id.IsZero())
			require.ErrorIs(t, err, codec.ErrID)
			var ie *codec.IDError
			require.ErrorAs(t, err, &ie)
			require.Equal(t, tt.want, ie.Reason)
		})
	}
	id, err := codec.NewIDAt("EVT", end-1, 1023, 4095)
	require.NoError(t, err)
	require.Equal(t, "EVTAzL8n0Y58m7", id.String())
}

func TestParseBrand(t *testing.T) {
	b, err := codec.ParseBrand("ORD")
	require.NoError(t, err)
	require.Equal(t, codec.Brand("ORD"), b)
	for _, s := range []string{"", "OR", "ORDE", "ord", "OR1", "OR ", "É1"} {
		_, err := codec.ParseBrand(s)
		require.ErrorIs(t, err, codec.ErrID, "%q", s)
	}
}

func TestZeroID(t *testing.T) {
	var id codec.ID
	require.True(t, id.IsZero())
	require.Empty(t, id.String())
	require.Empty(t, id.Brand())
	require.Zero(t, id.Snowflake())
	_, err := codec.Parse("EVT00000000000")
	require.NoError(t, err, "the lowest id is not the zero value")
}

func TestIDAsText(t *testing.T) {
	type doc struct {
		ID   codec.ID
		Ptr  *codec.ID
		None codec.ID
		Map  map[codec.ID]int `msgpack:"-"`
	}
	id, err := codec.Parse("EVT000xY9Wvvcd")
	require.NoError(t, err)
	in := doc{ID: id, Ptr: &id, Map: map[codec.ID]int{id: 1}}

	j, err := json.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, `{"ID":"EVT000xY9Wvvcd","Ptr":"EVT000xY9Wvvcd","None":"","Map":{"EVT000xY9Wvvcd":1}}`, string(j))
	var out doc
	require.NoError(t, json.Unmarshal(j, &out))
	require.Equal(t, in, out)

	m, err := msgpack.Marshal(in)
	require.NoError(t, err)
	var loose map[string]any
	require.NoError(t, msgpack.Unmarshal(m, &loose))
	require.Equal(t, map[string]any{"ID": "EVT000xY9Wvvcd", "Ptr": "EVT000xY9Wvvcd", "None": ""}, loose)
	out = doc{Map: in.Map}
	require.NoError(t, msgpack.Unmarshal(m, &out))
	require.Equal(t, in, out)

	require.ErrorIs(t, json.Unmarshal([]byte(`{"ID":"nope"}`), &out), codec.ErrID)
	bad, err := msgpack.Marshal(map[string]any{"ID": "nope"})
	require.NoError(t, err)
	require.ErrorIs(t, msgpack.Unmarshal(bad, &out), codec.ErrID)
	require.Equal(t, id, out.ID, "a refused text leaves the value")
}

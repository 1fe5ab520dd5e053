package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// formatVector is one JSON block of FORMAT.md.
type formatVector struct {
	Vector string `json:"vector"`

	// id, bad id
	ID          string `json:"id"`
	Snowflake   string `json:"snowflake"`
	UnixMs      int64  `json:"unix_ms"`
	Node        int    `json:"node"`
	Seq         int    `json:"seq"`
	ServerEntry string `json:"server_entry"`
	HostEntry   string `json:"host_entry"`
	Reason      string `json:"reason"`

	// message, pack, and their bad ones
	Hex      string        `json:"hex"`
	Messages []jsonMessage `json:"messages"`
	Writes   bool          `json:"writes"`
	Offset   int           `json:"offset"`
	What     string        `json:"what"`

	// partition
	Key        string `json:"key"`
	Partitions int    `json:"partitions"`
	Partition  int    `json:"partition"`

	// entry
	Identity struct {
		Brand     codec.Brand `json:"brand"`
		Node      int         `json:"node"`
		Exclusive bool        `json:"exclusive"`
	} `json:"identity"`
	Entry   codec.EntryID `json:"entry"`
	Fields  [][2]string   `json:"fields"`
	Records []struct {
		ID       codec.ID       `json:"id"`
		Position codec.Position `json:"position"`
		Addr     codec.EntryID  `json:"addr"`
		Type     string         `json:"type"`
		What     string         `json:"what"`
	} `json:"records"`
}

// The document and the code cannot part.
func TestFormat(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(doc, -1)
	seen := map[string]int{}
	for i, b := range blocks {
		var v formatVector
		dec := json.NewDecoder(bytes.NewReader(b[1]))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&v), "%s", b[1])
		seen[v.Vector]++
		check, ok := formatChecks[v.Vector]
		require.True(t, ok, "%s", b[1])
		t.Run(fmt.Sprintf("%d %s", i, v.Vector), func(t *testing.T) { check(t, v) })
	}
	for kind := range formatChecks {
		require.NotZero(t, seen[kind], "no vector of a %s", kind)
	}
}

var formatChecks = map[string]func(*testing.T, formatVector){
	"id":              checkIDVector,
	"bad id":          checkBadIDVector,
	"message":         checkMessageVector,
	"bad message":     checkBadMessageVector,
	"pack":            checkPackVector,
	"compressed pack": checkPackVector,
	"bad pack":        checkBadPackVector,
	"entry":           checkEntryVector,
	"partition":       checkPartitionVector,
}

func checkPartitionVector(t *testing.T, v formatVector) {
	require.Equal(t, v.Partition, codec.Partition(v.Key, v.Partitions))
}

func checkIDVector(t *testing.T, v formatVector) {
	id, err := codec.Parse(v.ID)
	require.NoError(t, err)
	require.Equal(t, v.Snowflake, strconv.FormatInt(id.Snowflake(), 10))
	require.Equal(t, v.UnixMs, id.UnixMs())
	require.Equal(t, v.Node, id.Node())
	require.Equal(t, v.Seq, id.Seq())
	require.Equal(t, v.ServerEntry, id.ServerEntry().String())
	require.Equal(t, v.HostEntry, id.HostEntry().String())
	derived, ok := codec.ServerID(id.Brand(), v.Node, entryID(t, v.ServerEntry))
	require.True(t, ok)
	require.Equal(t, id, derived)
	derived, ok = codec.HostID(id.Brand(), entryID(t, v.HostEntry))
	require.True(t, ok)
	require.Equal(t, id, derived)
}

func checkBadIDVector(t *testing.T, v formatVector) {
	_, err := codec.Parse(v.ID)
	var ie *codec.IDError
	require.ErrorAs(t, err, &ie)
	require.Equal(t, codec.Reason(v.Reason), ie.Reason)
}

func checkMessageVector(t *testing.T, v formatVector) {
	require.Len(t, v.Messages, 1)
	want := v.Messages[0].message(t)
	requireSame(t, want, decode(t, unhex(t, v.Hex)))
	if v.Writes {
		require.Equal(t, unhex(t, v.Hex), encode(t, want))
	}
}

func checkPackVector(t *testing.T, v formatVector) {
	var want []codec.Message
	for _, j := range v.Messages {
		want = append(want, j.message(t))
	}
	got, err := codec.DecodePack(nil, unhex(t, v.Hex))
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		requireSame(t, want[i], got[i])
	}
	if v.Writes {
		require.Equal(t, unhex(t, v.Hex), encodePack(t, want...))
	}
}

func checkBadMessageVector(t *testing.T, v formatVector) {
	var m codec.Message
	_, err := codec.DecodeMessage(unhex(t, v.Hex), &m)
	requireRefused(t, v, err)
}

func checkBadPackVector(t *testing.T, v formatVector) {
	_, err := codec.DecodePack(nil, unhex(t, v.Hex))
	requireRefused(t, v, err)
}

func requireRefused(t *testing.T, v formatVector, err error) {
	var de *codec.DecodeError
	require.ErrorAs(t, err, &de)
	require.NotEmpty(t, v.What)
	require.Contains(t, de.What, v.What)
	require.Equal(t, v.Offset, de.Offset)
}

func checkEntryVector(t *testing.T, v formatVector) {
	e := codec.Entry{ID: v.Entry}
	for _, f := range v.Fields {
		e.Fields = append(e.Fields, f[0], string(unhex(t, f[1])))
	}
	got := codec.Identity(v.Identity).Records(nil, e)
	require.Len(t, got, len(v.Records))
	for i, want := range v.Records {
		require.Equal(t, want.ID, got[i].ID)
		require.Equal(t, want.Position, got[i].Position)
		require.Equal(t, want.Addr, got[i].Addr)
		require.Equal(t, want.Type, got[i].Type)
		require.Equal(t, want.Type == "" && want.What == "", got[i].Foreign())
		if want.What == "" {
			require.NoError(t, got[i].Err)
		} else {
			require.ErrorContains(t, got[i].Err, want.What)
		}
	}
}

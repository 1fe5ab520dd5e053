package codec_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

func rename(to string) func(*codec.Message) error {
	return func(m *codec.Message) error {
		m.Type = to
		m.Key += ">" + to
		return nil
	}
}

func TestUpcasts(t *testing.T) {
	bad := errors.New("bad payload")
	u := codec.Upcasts{
		"v1":    rename("v2"),
		"v2":    rename("v3"),
		"v0":    rename("v1"),
		"a":     rename("b"),
		"b":     rename("a"),
		"into":  rename("a"),
		"same":  func(*codec.Message) error { return nil },
		"fails": func(*codec.Message) error { return bad },
		"then":  rename("fails"),
	}
	tests := []struct {
		in, out string
		path    string
		err     error
		at      string
	}{
		{"v0", "v3", ">v1>v2>v3", nil, ""},
		{"v2", "v3", ">v3", nil, ""},
		{"v3", "v3", "", nil, ""},
		{"other", "other", "", nil, ""},
		{"a", "", "", codec.ErrUpcastCycle, ""},
		{"into", "", "", codec.ErrUpcastCycle, ""},
		{"same", "", "", codec.ErrUpcastCycle, "same"},
		{"fails", "", "", bad, "fails"},
		{"then", "", "", bad, "fails"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			m := codec.Message{Type: tt.in}
			err := u.Apply(&m)
			if tt.err == nil {
				require.NoError(t, err)
				require.Equal(t, tt.out, m.Type)
				require.Equal(t, tt.path, m.Key)
				return
			}
			require.ErrorIs(t, err, tt.err)
			var ue *codec.UpcastError
			require.ErrorAs(t, err, &ue)
			if tt.at != "" {
				require.Equal(t, tt.at, ue.Type)
			}
		})
	}
	chain := codec.Upcasts{"1": rename("2"), "2": rename("3"), "3": rename("4")}
	m := codec.Message{Type: "1"}
	require.NoError(t, chain.Apply(&m), "a chain through every rule ends")
	require.Equal(t, "4", m.Type)
	require.NoError(t, codec.Upcasts(nil).Apply(&m))
}

// TestUpcastsOfRecords: what a rule fails on, or panics on, is undecodable and keeps its place and its bytes; its neighbours of
// the pack, and what was foreign or undecodable before, are as they were.
func TestUpcastsOfRecords(t *testing.T) {
	bad := errors.New("bad payload")
	u := codec.Upcasts{
		"v1": rename("v2"), "fails": func(*codec.Message) error { return bad }, "panics": func(*codec.Message) error { panic("no such field") },
	}
	encoded := func(typ string) string {
		b, err := codec.AppendMessage(nil, &codec.Message{Type: typ, Key: "k"})
		require.NoError(t, err)
		return string(b)
	}
	pack, err := codec.AppendPack(nil, 4, []byte(encoded("v1")+encoded("fails")+encoded("panics")+encoded("v2")), codec.NoCompression)
	require.NoError(t, err)
	identity := codec.Identity{Brand: "ORD"}
	for name, fields := range map[string][]string{
		"pack": {"b", string(pack)}, "undecodable": {"m", "x"}, "foreign": {"a", "b"},
	} {
		e := codec.Entry{ID: codec.EntryID{Ms: codec.Epoch + 1, Seq: 9}, Fields: fields}
		want := identity.Records(nil, e)
		got := identity.Records(nil, e)
		u.Records(got, e.Fields)
		if name != "pack" {
			require.Equal(t, want, got)
			continue
		}
		require.Equal(t, "v2", got[0].Type)
		require.Equal(t, "k>v2", got[0].Key)
		require.ErrorIs(t, got[1].Err, bad)
		require.ErrorContains(t, got[2].Err, "no such field")
		require.Equal(t, want[3], got[3])
		for i := range got {
			require.Equal(t, want[i].Addr, got[i].Addr)
			require.Equal(t, want[i].ID, got[i].ID)
			require.Equal(t, got[i].Err != nil, len(got[i].Fields) > 0)
			require.Equal(t, got[i].Err != nil, got[i].Type == "")
		}
	}
}

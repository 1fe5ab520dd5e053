package archive

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// TestVerify: of an archive that is whole nothing is told; each damage is, with the entries that it concerns.
func TestVerify(t *testing.T) {
	entries := make([]codec.Entry, 30)
	for i := range entries {
		body, err := codec.AppendMessage(nil, &codec.Message{Type: "t", Data: bytes.Repeat([]byte{1}, 100)})
		require.NoError(t, err)
		entries[i] = codec.Entry{ID: codec.EntryID{Ms: ms0 + uint64(i)}, Fields: []string{"m", string(body)}}
	}
	parts := [][]codec.Entry{entries[:10], entries[10:20], entries[20:]}
	name := segmentName(orders, entries[10].ID, entries[19].ID)
	tests := []struct {
		name, want  string
		spoil       func(s *Memory)
		first, last int
	}{
		{"whole", "", func(*Memory) {}, 0, 0},
		{"missing", "the object is not there", func(s *Memory) { delete(s.objects, name) }, 10, 19},
		{"truncated", "", func(s *Memory) { s.objects[name] = s.objects[name][:500] }, 10, 19},
		{"a bit", "", func(s *Memory) { s.objects[name] = bytes.Clone(s.objects[name]); s.objects[name][300] ^= 4 }, 10, 19},
		{"another's", "its bytes are not those that were written", func(s *Memory) {
			s.objects[name] = s.objects[segmentName(orders, entries[0].ID, entries[9].ID)]
		}, 10, 19},
		{"not listed", "overlaps", func(s *Memory) { s.objects[segmentName(orders, entries[5].ID, entries[14].ID)] = s.objects[name] }, 5, 14},
		{"a gap", "a gap", func(s *Memory) {
			m, err := readManifest(t.Context(), s, orders)
			require.NoError(t, err)
			m.Segments = append(m.Segments[:1], m.Segments[2])
			require.NoError(t, m.write(t.Context(), s, orders))
			delete(s.objects, name)
		}, 10, 19},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := filled(t, server, parts...)
			tt.spoil(store)
			r, err := NewReader(store, ReaderConfig{Address: orders.String()})
			require.NoError(t, err)
			var bad []Checked
			for c, err := range r.Verify(t.Context(), t.TempDir()) {
				require.NoError(t, err)
				if c.Problem != "" {
					bad = append(bad, c)
				}
			}
			if tt.name == "whole" {
				require.Empty(t, bad)
				return
			}
			require.Len(t, bad, 1)
			require.True(t, strings.Contains(bad[0].Problem, tt.want), bad[0].Problem)
			require.LessOrEqual(t, bad[0].First.Compare(entries[tt.first].ID), 0)
			require.GreaterOrEqual(t, bad[0].Last.Compare(codec.EntryID{Ms: entries[tt.last].ID.Ms}), 0)
		})
	}
}

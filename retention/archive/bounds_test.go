package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// allocates is how many bytes of memory are taken by what is called.
func allocates(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBounds: what says of itself that it is larger than it can be is refused before memory is taken for it.
func TestBounds(t *testing.T) {
	whole, _ := segmentOf(t, server, []codec.Entry{{ID: codec.EntryID{Ms: ms0}, Fields: []string{"a", "b"}}})
	described := func(footer ...byte) []byte {
		b := append([]byte("PAR1"), footer...)
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
	}
	most := binary.AppendUvarint(nil, math.MaxInt32)
	footerOf := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(footerOf[len(whole)-8:], math.MaxUint32)
	tests := []struct {
		name   string
		object []byte
	}{
		{"a footer longer than the object", footerOf},
		{"a list of what describes columns", described(append([]byte{0x15, 2, 0x19, 0xfc}, most...)...)},
		{"a text", described(append([]byte{0x15, 2, 0x48 + 0x10}, most...)...)},
		{"lists in lists", described(bytes.Repeat([]byte{0x19, 0x19}, 1<<20)...)},
		{"a field that ends too early", described(0x15)},
		{"nothing", nil},
		{"a word", []byte("PAR1")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Less(t, allocates(func() {
				_, err := openSegment(bytes.NewReader(tt.object), int64(len(tt.object)))
				require.Error(t, err)
			}), uint64(32<<20))
		})
	}
	for name, h := range map[string]format.PageHeader{
		"values":   {DataPageHeader: thrift.New(format.DataPageHeader{NumValues: math.MaxInt32})},
		"values 2": {Type: format.DataPageV2, DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: maxRows + 1})},
		"words":    {Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: math.MaxInt32})},
		"packed":   {CompressedPageSize: math.MaxInt32},
		"unpacked": {UncompressedPageSize: math.MaxInt32},
		"negative": {CompressedPageSize: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := thrift.Marshal(new(thrift.CompactProtocol), h)
			require.NoError(t, err)
			require.ErrorIs(t, bounded(b, &format.ColumnMetaData{Codec: format.Zstd, NumValues: maxRows}, false), errBounds)
		})
	}
	large := &Memory{}
	require.NoError(t, large.Create(t.Context(), manifestName(orders, 1), bytes.NewReader([]byte("{}")), 2))
	_, err := readManifest(t.Context(), claims{large, 1 << 40}, orders)
	require.ErrorIs(t, err, errBounds)
}

// claims is a store that says that its objects are large.
type claims struct {
	*Memory
	bytes int64
}

func (c claims) List(ctx context.Context, prefix string) ([]Object, error) {
	list, err := c.Memory.List(ctx, prefix)
	for i := range list {
		list[i].Bytes = c.bytes
	}
	return list, err
}

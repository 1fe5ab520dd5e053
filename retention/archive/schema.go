package archive

import (
	"fmt"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// schemaVersion is of what a segment's columns hold. A reader refuses a higher one.
const schemaVersion = 1

// schema of a segment: a row is a message, or an entry that holds none of ours. Names are those of records; their
// strings are UTF-8.
//
//	id       of the message; null: foreign
//	entry    <ms>-<seq> of the entry that it stands in
//	index    in a pack of `of` messages, else 0
//	of       messages, or rows, of the entry
//	time     of the entry's id
//	type, key, headers, format, data   the message; null, headers empty: the entry holds none, or cannot be read
//	fields   name, value, name, value ... of the entry as it was, at its first row, when the other columns do not
//	         give it back to the byte; else empty
var schema = parquet.NewSchema("message", parquet.Group{
	"id":      parquet.Optional(parquet.Encoded(parquet.String(), &parquet.DeltaByteArray)),
	"entry":   parquet.Encoded(parquet.String(), &parquet.DeltaByteArray),
	"index":   parquet.Encoded(parquet.Int(32), &parquet.DeltaBinaryPacked),
	"of":      parquet.Encoded(parquet.Int(32), &parquet.DeltaBinaryPacked),
	"time":    parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked),
	"type":    parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary)),
	"key":     parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary)),
	"headers": parquet.Map(parquet.Encoded(parquet.String(), &parquet.RLEDictionary), parquet.Encoded(parquet.String(), &parquet.RLEDictionary)),
	"format":  parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary)),
	"data":    parquet.Optional(parquet.Leaf(parquet.ByteArrayType)),
	"fields":  parquet.List(parquet.Leaf(parquet.ByteArrayType)),
})

// The leaves of schema, in its order.
const (
	colData = iota
	colEntry
	colFields
	colFormat
	colHeaderKey
	colHeaderValue
	colID
	colIndex
	colKey
	colOf
	colTime
	colType
	columns
)

// formats are the words of codec's formats.
var formats = [...]string{codec.FormatBytes: "bytes", codec.FormatMsgpack: "msgpack"}

// writerOptions make the bytes of a segment a function of its rows alone.
func writerOptions() []parquet.WriterOption {
	return []parquet.WriterOption{
		schema,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}),
		parquet.CreatedBy("echomq", strconv.Itoa(schemaVersion), "archive"),
		parquet.DictionaryMaxBytes(256 << 10),
		parquet.SkipPageBounds("data"),
		parquet.SkipPageBounds("fields", "list", "element"),
		parquet.SkipPageBounds("headers", "key_value", "value"),
	}
}

// The metadata of a segment's file.
const (
	metaSchema = "echomq.schema" // of its columns
	metaStream = "echomq.stream" // scope/stream
	metaBrand  = "echomq.brand"  // of the stream's ids; empty: it had none
	metaNode   = "echomq.node"
	metaOrder  = "echomq.order" // "server", or "host" of an exclusive stream
)

// origin is what a segment's file says of where it is from.
type origin struct {
	address  tier.Address
	identity codec.Identity
}

func (o origin) write(w *parquet.GenericWriter[any]) {
	order := "server"
	if o.identity.Exclusive {
		order = "host"
	}
	for _, kv := range [][2]string{
		{metaSchema, strconv.Itoa(schemaVersion)},
		{metaStream, o.address.String()},
		{metaBrand, string(o.identity.Brand)},
		{metaNode, strconv.Itoa(o.identity.Node)},
		{metaOrder, order},
	} {
		w.SetKeyValueMetadata(kv[0], kv[1])
	}
}

// readOrigin refuses what this version cannot read.
func readOrigin(f *parquet.File) (o origin, err error) {
	text, ok := f.Lookup(metaSchema)
	version, err := strconv.Atoi(text)
	if !ok || err != nil {
		return o, fmt.Errorf("a Parquet file, but no segment of an archive")
	}
	if version > schemaVersion {
		return o, fmt.Errorf("of schema %d, this version reads %d: upgrade it", version, schemaVersion)
	}
	stream, _ := f.Lookup(metaStream)
	if o.address, err = tier.ParseAddress(stream); err != nil {
		return o, err
	}
	brand, _ := f.Lookup(metaBrand)
	node, _ := f.Lookup(metaNode)
	order, _ := f.Lookup(metaOrder)
	o.identity = codec.Identity{Brand: codec.Brand(brand), Exclusive: order == "host"}
	if o.identity.Node, err = strconv.Atoi(node); err != nil {
		return o, err
	}
	if len(f.Schema().Columns()) < columns {
		return o, fmt.Errorf("columns are missing")
	}
	for i, path := range f.Schema().Columns() {
		if i < columns && fmt.Sprint(path) != fmt.Sprint(schema.Columns()[i]) {
			return o, fmt.Errorf("column %d is %v, not %v", i, path, schema.Columns()[i])
		}
	}
	return o, nil
}

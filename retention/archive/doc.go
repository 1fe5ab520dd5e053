// Package archive keeps the oldest entries of streams in an object store, as Parquet that other tools read.
//
// A Segment is a range of a stream's entries in one object: a row for each message, packs unfolded, and of what the columns do
// not give back to the byte the raw fields as well. A manifest lists the segments of a stream. A Reader yields what
// stream.Reader yields of the log.
//
// Objects are written once, and never over: whoever writes a segment or a manifest a second time finds it there. A segment is
// named by its first and last entry, and the same entries make the same bytes.
package archive

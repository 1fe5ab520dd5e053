// Package codec holds what crosses between systems: branded ids, the addresses
// of entries, the message envelope and the packs that carry it. It does no I/O.
//
// The main type is [Message]. [AppendMessage] and [DecodeMessage] turn it into
// the bytes of an entry's field and back; [Identity.Records] turns a whole entry
// of a stream into records, whoever wrote it.
//
// # Guarantees
//
//   - Order. Inside one brand the byte order of ids is their numeric order, and
//     it is the order of the entries they are derived from, under server order
//     ([ServerID]) and under host order ([HostID]).
//   - Uniqueness. A [Mint] never gives an id twice and never one outside the
//     range of time it was granted, whatever its clock does.
//   - Exactness. Types, keys, headers and payloads are bytes: what goes in comes
//     out, valid UTF-8 or not.
//   - Bounds. Decoding never allocates by a declared length, never recurses
//     deeper than [MaxDepth], never makes more than [MaxCompressed] bytes of what is
//     compressed, and never panics, whatever the bytes.
//   - Cost. AppendMessage and DecodeMessage allocate nothing in steady state.
//
// FORMAT.md beside this file documents every byte with vectors.
//
// # What it does not do
//
// It does not encrypt or sign; it does not know a schema; it does not
// copy: a decoded message aliases the bytes that it was decoded from.
package codec

// Package stream is the log: [Writer] appends branded messages to a stream of a scope, [Reader] reads history and
// follows it, [Group] shares a stream among consumers, each a [Member], and a [Cursor] has one [Owner] at a time. Whoever
// handles messages takes package consumer, which runs members and owners.
//
// Of a keyed stream (WriterConfig.Keyed) [Reader.ReadKey] reads one key by version, and [Writer.AppendIf] appends if a version
// is still the expected one; package aggregate folds such keys into states. What one server, or one owner, cannot do is split
// with [Partition], [PartitionedWriter] and [PartitionedCursor]. [Records] are for effects outside the server.
//
// Order: the ids of a stream ascend in the order in which its entries stand, for any number of writers; the server mints
// them, or, of an exclusive stream, its one writer. Duplicates: an append whose reply was lost is repeated by the writer
// without effect, so that it stands once; what the writer cannot find out it says (tier.OutcomeUnknown);
// [Writer.AppendOnce] is for what callers repeat. Members get each entry at least once. Durability is the server's: an
// acknowledged append is as safe as its append-only file and replicas make it; WriterConfig.Replicas and WriterConfig.Fsync wait for them.
//
// A stream of packs (several messages an entry) reads like one of plain entries; groups lease and settle it entry by
// entry, so that the messages of a pack come again together.
package stream

// Package consumer is the runtime that gives the messages of a stream to a handler: it fetches, handles, settles, keeps
// leases alive, takes over what others left behind, and stops without losing anything. Its main type is [Consumer].
//
//	c, err := consumer.New(consumer.Group(group), handler, consumer.Config{Concurrency: 8})
//	err = c.Run(ctx) // until ctx ends; nil after a clean stop
//
// # What to use when
//
//   - Work that any process may do, in any order: [Group].
//   - Order, of each key or of all, whichever process is at work: [Exclusive], with Config.Order. One process works, others
//     stand by.
//   - The same with more than one process, or server, can do: [NewPartitioned].
//   - One call for many messages, as of a database: [NewBatch], from any [Source].
//   - Effects at the server that count once, whatever is handled again: [Delivery.Emit]; in another scope: [ToOutbox] and
//     [NewForwarder]. Effects elsewhere, as a mail: middleware.Once.
//   - Time limits, rate limits, deduplication, tracing: package middleware.
//
// What is said of groups below holds of cursors, too, where nothing else is said.
//
// # Delivery
//
// At least once. A message is settled after its handler has returned nil, never before. It is handled again when
//
//   - its handler returned an error, panicked or ended its goroutine: after a growing, random pause, by any consumer of the
//     group, until Config.MaxDeliveries; [Permanent], [RetryAfter] and [Snooze] say otherwise;
//   - its consumer died, or was silent for longer than the lease: by another consumer;
//   - the server lost the group, which is made again where everything was settled at the last beat: what was settled since;
//   - it stands in a pack that changed hands before all of it was through: the entry is the unit of settling. When one
//     message of a pack fails, only that one comes again.
//
// [Delivery.Attempt] counts. It is not counted as an attempt when a stop got in the way: what was fetched and not begun
// is handed back to others at once, and so is what the drain deadline interrupted.
//
// A consumer that was frozen past its lease changes nothing when it wakes: whatever it wants to settle, renew or hand
// back is refused as a whole until it has learned what it still holds. The contexts of handlers whose entries are gone
// end with the cause [ErrLeaseLost]. What such a handler does outside the server cannot be taken back: effects need to be
// idempotent, or to be guarded by the message's id.
//
// # Batches
//
// [NewBatch] gives several messages to a handler at once, which returns a verdict for each. With an order by key a batch has one
// message of a key at most.
//
// # Order
//
// Config.Order says which messages wait for each other:
//
//   - [None], the default: none. Messages are begun in the order in which they were fetched, on several workers, and failed
//     ones come back later.
//   - [ByKey]: those of one key are handled in the order of their positions, one at a time; other keys go on. Messages without
//     a key wait for nobody.
//   - [Strict]: all of them, one at a time.
//
// A message that fails is parked, and holds up those behind it in its order until it is done or in the dead letters. By key,
// they are parked behind it at once, which is no attempt of theirs and leaves the room in flight to other keys; strictly, they
// stay in flight and nothing is read. What is parked when the consumer begins holds up its key as well; while more than 65,536
// messages are parked nothing new is read, since of each the key is held in memory. A key costs memory only while one of its
// messages is in flight or parked.
//
// The order is that of the messages that this consumer handles: of several consumers of a group each keeps its own, and one
// key may be with two of them. So a group keeps order with one consumer only. When that one was killed, what it had
// in flight comes after its lease, and what is new does not wait for it. A cursor keeps its order whoever owns it. A message can
// come again after later ones of its key when a lease was lost, a group was reset, or a dead letter was given back; and a hung
// handler holds up its key, and, once messages of that key fill the room in flight, all others.
//
// # What never reaches the handler
//
// Entries whose envelope cannot be decoded go to the group's dead letters with the reason, and so do messages that were
// delivered Config.MaxDeliveries times and did not come to an end. Entries that were trimmed
// while they were pending are counted as lost to retention. Foreign entries, written by other programs in their own
// form, do reach the handler, with their raw fields and a zero ID.
//
// # Cost
//
// An idle consumer sends at most two commands a second (with a lease of two seconds or more). What was handed back is found
// within about two seconds, what a dead consumer held within that after its lease. Memory is bounded by
// Config.MaxInFlight messages and Config.MaxInFlightBytes bytes.
package consumer

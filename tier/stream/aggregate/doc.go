// Package aggregate is event sourcing on keyed streams: an aggregate is the messages of one key, its state is what they fold to,
// and what is decided on a state is appended only if no other message of the key came in between. A Repository loads states and
// executes decisions.
//
// A state is never stored, so that it can always be had again from the messages. Snapshots of it, which spare the fold of
// all of them, are a cache: whatever is wrong with one, the messages are folded from the first.
//
// A decision is taken again when it lost a race, on the newer state, so it must only look at the state and answer with
// messages. It is appended whole or not at all, also when it concerns several keys. When a process dies, or a connection, in
// the middle of it, nobody knows whether it was appended: whoever repeats it gives it an id of its own that stands in the
// messages, and decides nothing when the state has seen that id.
package aggregate

// Package retention keeps streams as long as was promised, and no longer.
//
// What of a stream may go is a policy, stream.Retention, declared in the scope by stream.SetRetention. A Sweeper lets it go: one
// of all that run for a scope holds the right to, by a lease of the server's clock, and each trim asks for it in the same step.
// Look tells what the next beat would take, and who holds the rest.
//
// Guarantees. Without a policy nothing goes. Nothing goes that a group was not given, has pending or has parked, that a cursor is
// not through with, or that the archive does not have: what decides so and what trims is one script. Only a hard cap goes
// further; then the server counts, for each by name, what was taken from it, and so do the metrics. A sweeper that was frozen
// past its lease trims nothing. What fails keeps too much, never too little.
//
// A policy with an archive has a Sweeper move the oldest entries into an object store, package archive, before they go.
//
// It gives no memory back that is not a log's: dead letters, indexes of keys and receipts stay.
package retention

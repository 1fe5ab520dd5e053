// Package tier is the ground that the stream tier and the job queue stand on: the keyspace, the connections, and what a
// server's errors mean.
//
// [Dial] gives a [Client]; [ParseAddress] gives the names from which the builders of this package, and nothing else, make
// keys; [Script] is one state transition run on the server.
//
// Guarantees: a write is sent once and never repeated by the client library; a call has a deadline; a server of another
// major wire version is refused, on every new connection; the two answers to "may it have happened?" are told apart by
// [OutcomeUnknown].
package tier

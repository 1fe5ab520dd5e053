// Package topology declares a whole pipeline: scopes with their streams and groups, queues with their lanes and schedules, and the
// sources, stages, projections and sinks between them. A Document says it, in YAML or as Go values of the same types.
//
// Load reads a document and checks it, and tells everything that is wrong, each with its place. A plan compares it with a
// server, and applies what differs; what a document has declared is remembered there, so that what was taken out of it can be
// destroyed, and only that. docs/topology.md has it for users.
//
// Guarantees: a document with a problem is not a Document, and a plan that has to refuse a change changes nothing. What is applied
// is applied in order, each step in one call that can be repeated, so that whatever ends half way goes on when it is applied
// again. No value that came from the environment is shown in an error.
//
// What it does not do: it does not run stages by itself, package stage does; and it never guesses, so what it does not know is
// an error and not passed over.
package topology

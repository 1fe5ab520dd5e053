// Package queue is the job queue: [Client] enqueues jobs, [Workers] share them, each a [Member]. Whoever handles jobs takes
// package consumer, which runs members.
//
// A job is an entry of its lane's stream, leased by the pending list of that stream. Lanes take turns, by weight, and keep the
// order in which jobs came; there may be thousands of them, made by their first job and gone with the last. Jobs that wait for
// their time, and dead ones, lie outside the lanes.
//
// A [Flow] is a tree of jobs: each waits until its children, in any queue, have ended, and can read what they came to.
//
// Ids are minted by the client, so that a job is enqueued once however often that is tried: a call whose reply was lost is
// repeated without effect, and what the client cannot find out it says (tier.OutcomeUnknown). Members get each job at least
// once; a job is done once, and what is written together with that happens once. What a member holds is fenced: when it was
// silent for longer than the lease, others take its jobs over, and nothing that it still does to them has an effect.
//
// [Schedules] make jobs at the times of a cron expression or an interval. They are declared on the server, and one of all processes
// that run them fires for each time, by the server's clock.
//
// All that belongs to a queue lies on one slot, in the scope of its name. docs/jobs.md has the keys, the states and the
// scripts.
package queue

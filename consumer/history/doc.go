// Package history counts, minute by minute, what becomes of the jobs of a queue, and how long they were ready and at work. It is
// a projection of the queue's events (queue.Client.DeclareEvents): each event counts once, whoever runs it and however often that
// one dies, and it can be made anew from the events that are still there. It knows the last week.
//
// Run what [New] makes in a process that works on the queue; [Read] reads what it has come to. Events that were trimmed before
// they were folded are missing: keep as many as are told while no process runs.
package history

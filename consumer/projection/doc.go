// Package projection folds the messages of a stream into a state, with one owner at a time and each message exactly once: the
// state and how far it is move together, or not at all.
//
// A Table keeps a state for each key, at the server: a hash, written in the step that moves the checkpoint of its cursor. A
// Stored projection keeps it in a Store of the caller's, which writes its checkpoint in the transaction of the state.
//
// A Memory is the state of a whole stream in the memory of each process that runs it, which owns nothing: what follows about
// owners, commits and dead letters is of the other two.
//
// Messages are folded in the order of the log, by one goroutine: a fold is a function of the state and the message, so what it
// needs is order, not concurrency. One that fails holds up all that come after it, until it succeeds or is given up: none is
// folded on a state that lacks one before it, unless that stands in the dead letters. What a fold does beside that happens at
// least once, and what it emits, exactly once. Until a message is committed it may be folded again, on the same state.
//
// A projection has versions. Each has a cursor and a state of its own, balances.2, which begins at the head of the log; so a
// new version is made beside the one that is live, and Switch tells readers to use it.
package projection

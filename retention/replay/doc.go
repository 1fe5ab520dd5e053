// Package replay gives history out once more: to a handler, to another stream, or as the newest value of each key. What it
// reads is a Source: a stream.Reader, or the reader over archive and live tail.
//
// A Replay gives the messages of a window in their order, as fast as they are taken, or as they came, or so many a second; each
// is marked as a replay. To a handler each is given at least once: who stopped goes on behind the last message that was handled. To another
// stream each is appended once, whatever was interrupted, as by a named producer whose positions are the addresses in the source.
//
// It starts nothing: what runs ends with the call.
package replay

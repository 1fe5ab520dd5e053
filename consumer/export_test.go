package consumer

// The tests whose files end in _internal_test.go belong to this package: tracker, queue, look, pauses and reactions are
// decided by pure code that has no door to the outside, and that a model or a table tests better than a server does.

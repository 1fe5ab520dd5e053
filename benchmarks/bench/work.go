package bench

import "context"

// Work is something that the product does, and is measured at.
type Work struct {
	// Name is that of the report: the group that it is run with, and what it is of it.
	Name string
	// What says what it is, in a line.
	What string

	ceiling    ceiling
	atOnce     int // how many at once, where there is no other wish; 0: it is always one
	contestant func(a *arena) contestant
	// latency sends the messages of the loop and notes when they arrive; nil: nothing of this work is waited for.
	latency func(ctx context.Context, a *arena, l *openLoop) error
}

// Ceiling says what the work is compared with: a short name, and the commands.
func (w *Work) Ceiling() (name, what string) { return w.ceiling.name, w.ceiling.what }

// Concurrency is how many are at work at once, where so many are wished for, and 0 is no wish.
func (w *Work) Concurrency(wish int) int {
	if w.atOnce == 0 {
		return 1
	}
	if wish > 0 {
		return wish
	}
	return w.atOnce
}

// Group is works that are run together.
type Group struct {
	Name, What string
	Works      []Work
}

// Groups are all that can be measured.
func Groups() []Group {
	return []Group{
		{"stream", "a stream: published to, appended to, consumed, both at once", []Work{publishWork, publishTwoWork, appendWork, consumeWork, bothWork, bothTwoWork}},
		{"pack", "the same in packs of 100 messages", []Work{packPublishWork, packZstdWork, packConsumeWork, packWork}},
		{"replay", "a whole log: read, and given out once more", []Work{rangeWork, replayWork}},
		{"queue", "jobs: enqueued, and drained from one lane", []Work{enqueueWork, queueWork}},
		{"lanes", "jobs drained from 1,000 lanes", []Work{lanesWork}},
		{"bridge", "Watermill's interface: published, subscribed", []Work{bridgePublishWork, bridgeWork}},
		{"projection", "a log, folded into a table at the server", []Work{projectionWork}},
	}
}

// Find is the group of a name.
func Find(name string) (Group, bool) {
	for _, g := range Groups() {
		if g.Name == name {
			return g, true
		}
	}
	return Group{}, false
}

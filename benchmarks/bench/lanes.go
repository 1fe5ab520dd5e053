package bench

// The ceiling is that of one log: what lanes cost is part of what is measured.
var lanesWork = Work{
	Name: "lanes", What: "a worker that drains 1,000 lanes in fair turns",
	ceiling: ceilingJobs, atOnce: handlers, contestant: func(a *arena) contestant { return &drains{arena: a, lanes: manyLanes} },
}

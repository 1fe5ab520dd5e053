package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/tier"
)

// An Axis is something that grows, with what is done at each of its sizes.
type Axis struct {
	// Name, as in length, and what it counts.
	Name, What string
	// Own says that it takes servers that the axis starts itself.
	Own bool

	sizes func(most int) []int
	make  func(a *arena, size int, cfg *GrowthConfig) specimen
	// enter makes the arena of a size that has servers of its own, and what ends them; nil: all are at the caller's server.
	enter func(ctx context.Context, size int, cfg *GrowthConfig) (a *arena, end func() error, err error)
}

// Axes are all that can grow.
func Axes() []Axis {
	return []Axis{
		{Name: "length", What: "entries in the stream", sizes: decades, make: newLength},
		{Name: "pending", What: "entries that the group has not settled", sizes: decades, make: newPending},
		{Name: "groups", What: "groups of the stream", sizes: upTo(10, 1000, 1, 10, 100), make: newGroups},
		{Name: "lanes", What: "lanes of the queue", sizes: upTo(10, 10, 1, 1000, 10_000, 100_000), make: newLanes},
		{Name: "consumers", What: "consumers of the group", sizes: upTo(8, 1000, 1, 8, 64, 256), make: newConsumers},
		{Name: "nodes", What: "nodes of the cluster", Own: true, sizes: upTo(3, MaxCount, 1, 2, 3), make: newNodes, enter: enterCluster},
	}
}

// decades are the powers of ten up to the most, from 10,000 on, or from a hundredth of it.
func decades(most int) (list []int) {
	for n := most; n > 0 && n >= min(10_000, most/100); n /= 10 {
		list = append(list, n)
	}
	slices.Reverse(list)
	return list
}

// upTo are those sizes, none of them above one in so many of the most, or, where that is less, above least.
func upTo(least, part int, sizes ...int) func(most int) []int {
	return func(most int) []int {
		list := slices.Clone(sizes)
		for i := range list {
			list[i] = min(list[i], max(least, most/part))
		}
		return slices.Compact(list)
	}
}

// GrowthConfig says how far things grow. The zero value is ready to use.
type GrowthConfig struct {
	// Size is how many bytes of data a message has. Default 200; 8 to 1 MiB.
	Size int
	// Most is the greatest size of an axis that counts entries; axes of more costly things go less far. Default 1,000,000;
	// 1,000 to 10 million. Each entry takes about 70 bytes more than its data of the server's memory, pending 150 more, and the
	// smaller sizes stand beside the greatest.
	Most int
	// Count is how many messages each work has at each size, in a round. Default 5,000.
	Count int
	// Rounds is how often the sizes take turns. Default 5.
	Rounds int
	// Progress and Entered are those of Config.
	Progress func(done, total int)
	Entered  func(scope string)
}

// The bounds of a GrowthConfig, beside those of a Config.
const (
	MinMost     = 1000
	DefaultMost = 1_000_000
)

func (c *GrowthConfig) setDefaults() error {
	if c.Most == 0 {
		c.Most = DefaultMost
	}
	if c.Most < MinMost || c.Most > MaxCount {
		return fmt.Errorf("%w: Most is %d, want %d to %d", ErrConfig, c.Most, MinMost, MaxCount)
	}
	if c.Count == 0 {
		c.Count = 5000
	}
	plain := Config{Size: c.Size, Count: c.Count, Rounds: c.Rounds, Progress: c.Progress, Entered: c.Entered}
	plain.setDefaults()
	c.Size, c.Rounds, c.Progress, c.Entered = plain.Size, plain.Rounds, plain.Progress, plain.Entered
	return plain.validate()
}

// A specimen is what is of one size, for as long as the axis is measured: the sizes stand beside each other.
type specimen interface {
	// prepare makes it, and says how many bytes of the server's memory one of what grows takes; 0: that is not known.
	prepare(ctx context.Context) (bytesEach float64, err error)
	// steps are what is done to it, over and over; after all of them it has the size that it had.
	steps() []step
	clean(ctx context.Context) error
}

// A step is a work at one size: calls, one after the other, of so many messages each, or, where there is none, messages in
// an open loop.
type step struct {
	work        string
	calls, each int
	// before, which may be nil, makes what the calls need. It is not measured.
	before func(ctx context.Context) error
	call   func(ctx context.Context, i int) error
	loop   func(ctx context.Context, l *openLoop) error
}

func (s *step) messages() int { return s.calls * s.each }

// grown is one size, and what its steps have taken.
type grown struct {
	size  int
	arena *arena
	end   func() error
	specimen
	stepsOf []step
	bytes   float64
	costs   [][]Cost
	times   [][]time.Duration
}

// Grow measures what works cost at each size of an axis, the sizes by turns, and hands the points over when all are there. It
// writes into scopes of its own at the client's server, which it removes, or starts servers of its own for an axis that needs
// some; then the client may be nil.
//
// Errors: ErrConfig; what the works and the server fail with.
func Grow(ctx context.Context, client *tier.Client, axis Axis, cfg GrowthConfig, each func(Point) error) (err error) {
	if err := cfg.setDefaults(); err != nil {
		return err
	}
	var all []*grown
	defer func() {
		p := pool.New().WithErrors()
		for _, g := range all {
			p.Go(func() error { return g.leave(context.WithoutCancel(ctx)) })
		}
		err = errors.Join(err, p.Wait())
	}()
	entering := pool.New().WithContext(ctx).WithFirstError()
	for _, size := range axis.sizes(cfg.Most) {
		g := &grown{size: size}
		all = append(all, g)
		entering.Go(func(context.Context) error { return g.enter(ctx, client, axis, &cfg) })
	}
	if err := entering.Wait(); err != nil {
		return fmt.Errorf("%s: %w", axis.Name, err)
	}
	for _, g := range all {
		if axis.enter == nil {
			cfg.Entered(g.arena.scope)
		}
		g.specimen = axis.make(g.arena, g.size, &cfg)
		if g.bytes, err = g.prepare(ctx); err != nil {
			return fmt.Errorf("%s of %d: %w", axis.Name, g.size, err)
		}
		g.stepsOf = g.steps()
		g.costs, g.times = make([][]Cost, len(g.stepsOf)), make([][]time.Duration, len(g.stepsOf))
	}
	if err := turns(ctx, axis, all, &cfg); err != nil {
		return err
	}
	return points(ctx, axis, all, &cfg, each)
}

func (g *grown) enter(ctx context.Context, client *tier.Client, axis Axis, cfg *GrowthConfig) (err error) {
	if axis.enter != nil {
		g.arena, g.end, err = axis.enter(ctx, g.size, cfg)
	} else {
		g.arena, err = enter(ctx, client, cfg.Size, 0)
	}
	return err
}

func (g *grown) leave(ctx context.Context) error {
	var err error
	if g.arena == nil {
		return nil
	}
	if g.specimen != nil {
		err = g.clean(ctx)
	}
	if g.end != nil {
		return errors.Join(err, g.end())
	}
	return errors.Join(err, g.arena.leave(ctx))
}

// turns lets the sizes take turns. The first is not counted: scripts are loaded, connections are made.
func turns(ctx context.Context, axis Axis, all []*grown, cfg *GrowthConfig) error {
	p := &progress{report: cfg.Progress}
	for _, g := range all {
		for i := range g.stepsOf {
			p.total += (cfg.Rounds + 1) * g.stepsOf[i].messages()
		}
	}
	for round := range cfg.Rounds + 1 {
		for _, g := range all {
			for i := range g.stepsOf {
				if err := g.measure(ctx, i, round > 0); err != nil {
					return fmt.Errorf("%s at %s %d: %w", g.stepsOf[i].work, axis.Name, g.size, err)
				}
				p.add(g.stepsOf[i].messages())
			}
		}
	}
	return nil
}

// measure does the i-th step once.
func (g *grown) measure(ctx context.Context, i int, counts bool) error {
	s := &g.stepsOf[i]
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return err
		}
	}
	var times []time.Duration
	cost, err := g.arena.meter.Measure(ctx, func(ctx context.Context) error {
		if s.loop != nil {
			l := newLoop(s.messages())
			err := s.loop(ctx, l)
			times = l.times()
			return err
		}
		for k := range s.calls {
			begun := time.Now()
			if err := s.call(ctx, k); err != nil {
				return err
			}
			times = append(times, time.Since(begun))
		}
		return nil
	})
	if err == nil && counts {
		g.costs[i], g.times[i] = append(g.costs[i], cost), append(g.times[i], times...)
	}
	return err
}

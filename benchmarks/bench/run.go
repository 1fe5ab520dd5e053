package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomq/pipeline/tier"
)

// Run measures the works of a group, one after the other, and hands each result over when it is there. It writes into a
// scope of its own at the client's server, which it removes. Of ctx's end, or an error, it leaves nothing behind that it
// does not name.
//
// Errors: ErrConfig; what the works and the server fail with.
func Run(ctx context.Context, client *tier.Client, group Group, cfg Config, each func(Result) error) (err error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	a, err := enter(ctx, client, cfg.Size, cfg.Concurrency)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.leave(ctx)) }()
	cfg.Entered(a.scope)
	durability, err := a.meter.durability(ctx)
	if err != nil {
		return err
	}
	p := &progress{report: cfg.Progress, total: total(group, &cfg)}
	for i := range group.Works {
		w := &group.Works[i]
		r, err := a.rounds(ctx, w, &cfg, p)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		out := r.result()
		out.Work, out.Ceiling, out.Size, out.Concurrency = w.Name, w.ceiling.name, cfg.Size, w.Concurrency(cfg.Concurrency)
		out.ServerName, out.Durability = client.Server().Name+" "+client.Server().Version, durability
		if err := each(out); err != nil {
			return err
		}
	}
	return nil
}

// progress counts messages.
type progress struct {
	report      func(done, total int)
	done, total int
}

func (p *progress) add(n int) {
	p.done += n
	p.report(p.done, p.total)
}

// What a round on cfg.Count messages has besides.
const (
	warmUps     = 10   // one so many times smaller goes before, and is not counted: scripts are loaded, buffers grow
	mostLatency = 1000 // messages of the open loop, in a round
)

func warm(count int) int { return max(1, count/warmUps) }

func total(group Group, cfg *Config) (n int) {
	for i := range group.Works {
		n += 2 * (warm(cfg.Count) + cfg.Rounds*cfg.Count)
		if group.Works[i].latency != nil {
			n += 2 * cfg.Rounds * min(cfg.Count, mostLatency)
		}
	}
	return n
}

// rounds lets a work and its ceiling take turns.
func (a *arena) rounds(ctx context.Context, w *Work, cfg *Config, p *progress) (*rounds, error) {
	r := &rounds{count: cfg.Count}
	work, raw := w.contestant(a), w.ceiling.make(a)
	for _, c := range []contestant{work, raw} {
		if _, _, err := a.round(ctx, c, warm(cfg.Count)); err != nil {
			return nil, err
		}
		p.add(warm(cfg.Count))
	}
	for range cfg.Rounds {
		cost, bytes, err := a.round(ctx, work, cfg.Count)
		if err != nil {
			return nil, err
		}
		p.add(cfg.Count)
		ceiling, _, err := a.round(ctx, raw, cfg.Count)
		if err != nil {
			return nil, fmt.Errorf("ceiling %s: %w", w.ceiling.name, err)
		}
		p.add(cfg.Count)
		r.work, r.ceiling, r.bytes = append(r.work, cost), append(r.ceiling, ceiling), max(r.bytes, bytes)
		if w.latency == nil {
			continue
		}
		n := min(cfg.Count, mostLatency)
		ours, theirs := newLoop(n), newLoop(n)
		if err := w.latency(ctx, a, ours); err != nil {
			return nil, err
		}
		p.add(n)
		if err := rawLatency(ctx, a, theirs); err != nil {
			return nil, fmt.Errorf("ceiling of the latency: %w", err)
		}
		p.add(n)
		r.times, r.rawTimes = append(r.times, ours.times()...), append(r.rawTimes, theirs.times()...)
	}
	return r, nil
}

// round is one turn of one contestant, and the memory of its messages.
func (a *arena) round(ctx context.Context, c contestant, n int) (cost Cost, bytes int64, err error) {
	defer func() { err = errors.Join(err, c.clean(context.WithoutCancel(ctx))) }()
	if err := c.prepare(ctx, n); err != nil {
		return cost, 0, err
	}
	before, err := a.meter.stored(ctx, c.keys())
	if err != nil {
		return cost, 0, err
	}
	if cost, err = a.meter.Measure(ctx, c.run); err != nil {
		return cost, 0, err
	}
	after, err := a.meter.stored(ctx, c.keys())
	return cost, max(before, after), err
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// safety is where a message has to be before it is acknowledged.
type safety struct {
	name, what string
	sync       string // appendfsync of an append-only file; empty: there is none
	safe       tier.Durability
}

var safeties = []safety{
	{"everysec", "an append-only file, synced each second", "everysec", tier.Durability{}},
	{"always", "an append-only file, synced before each reply", "always", tier.Durability{}},
	{"fsync", "a file synced each second, which the writer waits for (Fsync)", "everysec", tier.Durability{Fsync: true}},
	{"fsync-always", "a file synced before each reply, and Fsync", "always", tier.Durability{Fsync: true}},
	{"replica", "no file, but a replica, which the writer waits for (Replicas 1)", "", tier.Durability{Replicas: 1}},
}

var ceilingNone = ceiling{name: "none", what: "the same, at a server that keeps nothing"}

// DurabilityGroup is the works that RunDurability measures: Publish with what makes it safe, against Publish without.
func DurabilityGroup() Group {
	g := Group{Name: "durability", What: "what append-only files and replicas cost a writer"}
	for _, s := range safeties {
		g.Works = append(g.Works, Work{Name: g.Name + "-" + s.name, What: s.what, ceiling: ceilingNone})
	}
	return g
}

// RunDurability measures the works of DurabilityGroup, by turns with the same at a server that keeps nothing, on servers that it
// starts; one whose server has no WAITAOF is left out. Latency is from when a message was to be published to when it is
// acknowledged. Count is 20,000 by default, and Rounds 3. Errors: ErrConfig; what the servers fail with.
func RunDurability(ctx context.Context, cfg Config, each func(Result) error) (err error) {
	if cfg.Count == 0 {
		cfg.Count = 20_000
	}
	if cfg.Rounds == 0 {
		cfg.Rounds = 3
	}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	s, err := newServers()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	plain, err := s.arena(ctx, safety{}, cfg.Size)
	if err != nil {
		return err
	}
	p := &progress{report: cfg.Progress, total: len(safeties) * 2 * (warm(cfg.Count) + cfg.Rounds*(cfg.Count+min(cfg.Count, mostLatency)))}
	works := DurabilityGroup().Works
	for i, one := range safeties {
		a, err := s.arena(ctx, one, cfg.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", works[i].Name, err)
		}
		if one.safe.Fsync && !a.has(ctx, "WAITAOF") {
			continue
		}
		r, err := safeRounds(ctx, a, plain, one.safe, &cfg, p)
		if err != nil {
			return fmt.Errorf("%s: %w", works[i].Name, err)
		}
		out := r.result()
		out.Work, out.Ceiling, out.Size, out.Concurrency = works[i].Name, ceilingNone.name, cfg.Size, works[i].Concurrency(0)
		out.ServerName = a.client.Server().Name + " " + a.client.Server().Version
		if out.Durability, err = a.meter.durability(ctx); err != nil {
			return err
		}
		if one.safe.Replicas > 0 {
			out.Durability += fmt.Sprintf(", Replicas %d", one.safe.Replicas)
		}
		if one.safe.Fsync {
			out.Durability += ", Fsync"
		}
		if err := each(out); err != nil {
			return err
		}
	}
	return nil
}

// arena starts a server that is as safe as that, and its replicas.
func (s *servers) arena(ctx context.Context, one safety, size int) (*arena, error) {
	cfg := embedded.Config{}
	if one.sync != "" {
		cfg.AppendOnly, cfg.Args = true, []string{"--appendfsync", one.sync}
	}
	server, err := s.start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for range one.safe.Replicas {
		if err := s.replica(ctx, server); err != nil {
			return nil, err
		}
	}
	client, err := s.dial(ctx, server)
	if err != nil {
		return nil, err
	}
	a, err := enter(ctx, client, size, 0)
	if err == nil {
		s.arenas = append(s.arenas, a)
	}
	return a, err
}

// has says whether the server knows a command.
func (a *arena) has(ctx context.Context, command string) bool {
	reply, err := a.wire.ask(ctx, "COMMAND", "INFO", command)
	list, _ := reply.([]any)
	return err == nil && len(list) == 1 && list[0] != nil
}

// safeRounds lets a server and the one that keeps nothing take turns.
func safeRounds(ctx context.Context, a, plain *arena, safe tier.Durability, cfg *Config, p *progress) (*rounds, error) {
	r := &rounds{count: cfg.Count}
	ours, theirs := &publishes{arena: a, pack: 1, safe: safe}, &publishes{arena: plain, pack: 1}
	n := min(cfg.Count, mostLatency)
	for round := range cfg.Rounds + 1 {
		count := cfg.Count
		if round == 0 {
			count = warm(cfg.Count)
		}
		cost, bytes, err := a.round(ctx, ours, count)
		if err != nil {
			return nil, err
		}
		p.add(count)
		ceiling, _, err := plain.round(ctx, theirs, count)
		if err != nil {
			return nil, fmt.Errorf("ceiling: %w", err)
		}
		p.add(count)
		if round == 0 {
			continue
		}
		r.work, r.ceiling, r.bytes = append(r.work, cost), append(r.ceiling, ceiling), max(r.bytes, bytes)
		times, err := acknowledgements(ctx, ours, n)
		if err != nil {
			return nil, err
		}
		raw, err := acknowledgements(ctx, theirs, n)
		if err != nil {
			return nil, fmt.Errorf("ceiling of the latency: %w", err)
		}
		p.add(2 * n)
		r.times, r.rawTimes = append(r.times, times.times()...), append(r.rawTimes, raw.times()...)
	}
	return r, nil
}

// acknowledgements are how long messages take to be acknowledged that are published at Rate a second.
func acknowledgements(ctx context.Context, c *publishes, n int) (l *openLoop, err error) {
	defer func() { err = errors.Join(err, c.clean(context.WithoutCancel(ctx))) }()
	if err := c.prepare(ctx, n); err != nil {
		return nil, err
	}
	l = newLoop(n)
	return l, l.run(ctx, false, func(ctx context.Context, i int) error {
		return c.to.Publish(ctx, c.message(i), func(_ codec.ID, err error) {
			if err == nil {
				l.arrived(i)
			}
		})
	})
}

// replica starts one that has all that another has, and goes on having it.
func (s *servers) replica(ctx context.Context, of *embedded.Server) error {
	host, port, err := net.SplitHostPort(of.Addr())
	if err != nil {
		return err
	}
	one, err := s.start(ctx, embedded.Config{Args: []string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"}})
	if err != nil {
		return err
	}
	w, err := wireTo(ctx, one)
	if err != nil {
		return err
	}
	defer w.Close()
	return none(ctx, "the replica does not follow", func(ctx context.Context) (int64, error) {
		info, err := w.ask(ctx, "INFO", "replication")
		if text, _ := info.(string); err != nil || strings.Contains(text, "master_link_status:up") {
			return 0, err
		}
		return 1, nil
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/cmd/pipeline/internal/words"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention/replay"
)

// replayed is what a replay has given out.
type replayed struct {
	replaying   *replaying
	n           int
	first, last codec.Position
	next        codec.EntryID
	begun       time.Time
}

func (r *replaying) begin() *replayed {
	return &replayed{replaying: r, begun: time.Now()}
}

// gave counts a message.
func (p *replayed) gave(m *codec.Record) {
	if p.n == 0 {
		p.first = m.Position
	}
	p.n++
	p.last, p.next = m.Position, m.Addr.Next()
	p.replaying.app.done = p.n
	if p.n%256 == 1 || p.replaying.cfg.Speed > 0 || p.replaying.exec != nil {
		p.replaying.progress(m.Addr, p.n)
	}
}

// report says what was given out.
func (p *replayed) report(err error) error {
	a, took := p.replaying.app, time.Since(p.begun)
	a.endProgress()
	if p.n == 0 && err != nil {
		return err
	}
	places := ""
	if p.n > 0 {
		places = fmt.Sprintf("; %s to %s", p.first, p.last)
	}
	a.note("%s of %s replayed in %s, %s%s", show.Count(p.n, "message"), p.replaying.addr, show.Duration(took), show.Rate(p.n, took), places)
	if err != nil && p.replaying.exec != nil {
		a.note("to go on behind the last one: %s", p.replaying.again(p.next))
	}
	return err
}

// again is the command that replays the rest, from an address on.
func (r *replaying) again(from codec.EntryID) string {
	line := []string{"pipeline", "replay", r.addr.String(), "--from", from.String()}
	add := func(flag, value string) { line = append(line, flag, value) }
	if r.to.text != "" {
		add("--to", r.cfg.To.String()) // a time may be told from now
	}
	for _, t := range r.cfg.Types {
		add("--type", t)
	}
	for _, k := range r.cfg.Keys {
		add("--key", k)
	}
	if r.cfg.Speed > 0 {
		add("--speed", r.speed)
	}
	if r.cfg.Rate > 0 {
		add("--rate", strconv.FormatFloat(r.cfg.Rate, 'g', -1, 64))
	}
	add("--exec", r.command)
	return words.Join(line)
}

// hand gives messages to the command, or prints them.
func (r *replaying) hand(ctx context.Context, source *past) error {
	job, err := replay.New(source, r.cfg)
	if err != nil {
		return err
	}
	out := r.app.sink()
	p := r.begin()
	handle := func(ctx context.Context, d *consumer.Delivery) error {
		if err := r.give(ctx, out, d); err != nil {
			return err
		}
		p.gave(&d.Record)
		return nil
	}
	err = job.Run(ctx, handle)
	return p.report(errors.Join(err, out.flush()))
}

func (r *replaying) give(ctx context.Context, out *sink, d *consumer.Delivery) error {
	switch {
	case r.exec != nil:
		ctx, cancel := outlive(ctx, drainTimeout) // an interrupt lets it finish
		defer cancel()
		return r.exec.run(ctx, r.app, &d.Record, "PIPELINE_REPLAY=1")
	case r.cfg.Speed > 0 || r.cfg.Rate > 0:
		return out.show(&d.Record)
	}
	return out.put(&d.Record, 0)
}

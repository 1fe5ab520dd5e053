package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// progress shows how far the replay is in its window.
func (r *replaying) progress(at codec.EntryID, n int) {
	a := r.app
	if a.progress.Load() == nil {
		if isTerminal(a.out) && r.file == "" && r.target == "" && !r.dryRun {
			return // where the messages go, or what the commands print
		}
		r.cfg.From = at
		a.startProgress(max(1, int64(r.cfg.To.Ms-at.Ms)), "message")
	}
	a.progress.Load().at(int64(at.Ms-r.cfg.From.Ms), n)
}

// forward appends the messages to another stream.
func (r *replaying) forward(ctx context.Context, client *tier.Client, source *past) error {
	if err := source.onlyOne("--to-stream"); err != nil {
		return err
	}
	job, err := replay.New(source, r.cfg)
	if err != nil {
		return err
	}
	w, err := namedWriter(ctx, client, stream.WriterConfig{Address: r.target, Producer: r.producerName()})
	if err != nil {
		return err
	}
	begun := time.Now()
	f, err := job.Forward(ctx, w, func(f replay.Forwarded) {
		r.app.done = f.Appended
		r.progress(f.Last, f.Appended)
	})
	r.app.endProgress()
	return errors.Join(err, r.reportForward(f, time.Since(begun), err))
}

// namedWriter is a writer with a producer's name, of a keyed stream too.
func namedWriter(ctx context.Context, client *tier.Client, cfg stream.WriterConfig) (*stream.Writer, error) {
	cfg.MaxMessage = stream.MaxBatchBytes // whatever others have written
	w, err := stream.NewWriter(client, cfg)
	if err != nil {
		return nil, err
	}
	_, err = w.Declare(ctx)
	if differs, ok := errors.AsType[*stream.KindDiffersError](err); ok && differs.Have == "keyed" {
		cfg.Keyed = true
		return stream.NewWriter(client, cfg)
	}
	return w, err
}

// producerName is that of what is replayed: the same command has the same one.
func (r *replaying) producerName() string {
	if r.producer != "" {
		return r.producer
	}
	return producerOf("replay", fmt.Sprintf("%s %q %q %q %q", r.addr, r.from.text, r.to.text, r.cfg.Types, r.cfg.Keys))
}

// producerOf is a producer's name that is made of what a command appends.
func producerOf(command, what string) string {
	return fmt.Sprintf("%s-%x", command, sha256.Sum256([]byte(what)))[:31]
}

func (r *replaying) reportForward(f replay.Forwarded, took time.Duration, err error) error {
	a := r.app
	if a.output == "json" {
		if err := a.printObject(struct {
			Appended int           `json:"appended"`
			Foreign  int           `json:"foreign"`
			Before   codec.EntryID `json:"before"`
			Last     codec.EntryID `json:"last"`
			Producer string        `json:"producer"`
			Seconds  float64       `json:"seconds"`
		}{f.Appended, f.Foreign, f.Before, f.Last, r.producerName(), took.Seconds()}); err != nil {
			return err
		}
	}
	if f.Appended == 0 && err != nil && !stoppedWaiting(err) {
		return nil // err says why
	}
	a.note("%s of %s appended to %s in %s, %s, by producer %s", show.Count(f.Appended, "message"), r.addr, r.target, show.Duration(took), show.Rate(f.Appended, took), r.producerName())
	if !f.Before.IsZero() {
		a.note("it had got to %s before: what is up to there was not appended again; another --producer begins anew", f.Before)
	}
	if f.Foreign > 0 {
		a.warn("%s left out: foreign or undecodable, they hold no message that could be appended", show.Count(f.Foreign, "entry"))
	}
	return nil
}

// export writes the messages to a file, behind those that it has.
func (r *replaying) export(ctx context.Context, source *past) error {
	file, last, err := openExport(r.file)
	if err != nil {
		return err
	}
	defer file.close()
	if last != nil {
		if err := source.onlyOne("--out " + r.file + ", which has messages"); err != nil {
			return err
		}
		at, err := last.address(ctx, source)
		if err != nil {
			return fmt.Errorf("--out %s: %w", r.file, err)
		}
		r.app.note("%s has messages up to %s: going on behind it", r.file, at)
		if at = at.Next(); at.Compare(r.cfg.From) > 0 {
			r.cfg.From = at
		}
		if at.Compare(r.cfg.To) > 0 {
			return r.begin().report(nil)
		}
	}
	job, err := replay.New(source, r.cfg)
	if err != nil {
		return err
	}
	p := r.begin()
	err = job.Run(ctx, func(_ context.Context, d *consumer.Delivery) error {
		if err := file.put(&d.Record); err != nil {
			return err
		}
		p.gave(&d.Record)
		return nil
	})
	return p.report(errors.Join(err, file.close()))
}

// count says what a replay would give out.
func (r *replaying) count(ctx context.Context, source *past) error {
	cfg := r.cfg
	cfg.Speed, cfg.Rate = 0, 0
	job, err := replay.New(source, cfg)
	if err != nil {
		return err
	}
	p := r.begin()
	var foreign int
	var bytes int64
	var first, last codec.EntryID
	err = job.Run(ctx, func(_ context.Context, d *consumer.Delivery) error {
		if p.gave(&d.Record); p.n == 1 {
			first = d.Addr
		}
		if last = d.Addr; d.Foreign() || d.Err != nil {
			foreign++
		}
		bytes += int64(len(d.Data))
		return nil
	})
	r.app.endProgress()
	if err != nil {
		return err
	}
	takes := r.takes(p.n, last.Time().Sub(first.Time()))
	if r.app.json() {
		return r.app.printObject(struct {
			Messages int           `json:"messages"`
			Foreign  int           `json:"foreign"`
			Bytes    int64         `json:"bytes"`
			First    codec.EntryID `json:"first"`
			Last     codec.EntryID `json:"last"`
			Seconds  float64       `json:"seconds,omitempty"` // with a speed or a rate
		}{p.n, foreign, bytes, first, last, takes.Seconds()})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s of %s, %s of data", show.Count(p.n, "message"), r.addr, show.Bytes(bytes))
	if p.n > 0 {
		fmt.Fprintf(&text, ", %s to %s", show.Time(first.Time()), show.Time(last.Time()))
	}
	if foreign > 0 {
		fmt.Fprintf(&text, "; %d of them foreign or undecodable", foreign)
	}
	if takes > 0 {
		fmt.Fprintf(&text, "; it takes %s", show.Duration(takes))
	}
	return r.app.print(text.String() + "\n")
}

// takes is how long n messages take that came in a time, as far as they are waited for.
func (r *replaying) takes(n int, came time.Duration) (d time.Duration) {
	if r.cfg.Speed > 0 {
		d = time.Duration(float64(came) / r.cfg.Speed)
	}
	if r.cfg.Rate > 0 && n > 0 {
		d = max(d, time.Duration(float64(n-1)/r.cfg.Rate*float64(time.Second)))
	}
	return d
}

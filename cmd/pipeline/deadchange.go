package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// changeChunk is how many letters are changed between two looks at how far it is.
const changeChunk = 1000

func (d *dead) redrive(ctx context.Context, client *tier.Client, ids []codec.EntryID) error {
	if is, err := d.exists(ctx, client); err != nil || !is {
		if err == nil {
			err = d.noGroup()
		}
		return err
	}
	var r stream.RedriveResult
	agreed, err := d.agreed(ctx, "redrive", len(ids))
	if agreed {
		r, err = d.redriveAll(ctx, client, ids)
	}
	if err != nil {
		return err
	}
	if err := d.printRedriven(len(ids), &r); err != nil {
		return err
	}
	if n := len(r.Trimmed) + len(r.Busy) + len(r.Ahead) + len(r.Foreign); n > 0 {
		return fmt.Errorf("%s of %d stay: %s", show.Count(n, "dead letter"), len(ids), strings.Join(reasons(&r), "; "))
	}
	return nil
}

// redriveAll redrives in parts, so that an interrupted command can say how far it came.
func (d *dead) redriveAll(ctx context.Context, client *tier.Client, ids []codec.EntryID) (all stream.RedriveResult, err error) {
	d.app.startProgress(int64(len(ids)), "message")
	defer d.app.endProgress()
	for chunk := range slices.Chunk(ids, changeChunk) {
		r, err := stream.Redrive(ctx, client, d.addr.String(), d.group, chunk)
		all.Redriven, all.Gone = all.Redriven+r.Redriven, all.Gone+r.Gone
		all.Trimmed, all.Busy = append(all.Trimmed, r.Trimmed...), append(all.Busy, r.Busy...)
		all.Ahead, all.Foreign = append(all.Ahead, r.Ahead...), append(all.Foreign, r.Foreign...)
		if err != nil {
			return all, fmt.Errorf("%d of %s redriven for certain, run it again for the rest: %w", all.Redriven, show.Count(len(ids), "dead letter"), err)
		}
		d.app.done = all.Redriven
		d.app.progress.Load().at(int64(all.Redriven), all.Redriven)
	}
	return all, nil
}

// reasons say why letters stay.
func reasons(r *stream.RedriveResult) (list []string) {
	for _, why := range []struct {
		ids  []codec.EntryID
		text string
	}{
		{r.Trimmed, "their messages were trimmed from the stream: 'pipeline dead show' still has them"},
		{r.Busy, "other messages of their packs are being handled: run it again later"},
		{r.Ahead, "it was moved back and is still to come to their messages: drop them"},
		{r.Foreign, "they are no dead letters of this program"},
	} {
		if len(why.ids) > 0 {
			list = append(list, fmt.Sprintf("%d (%s, ...), %s", len(why.ids), why.ids[0], why.text))
		}
	}
	return list
}

func (d *dead) printRedriven(chosen int, r *stream.RedriveResult) error {
	if !d.app.json() {
		if d.dryRun || chosen == 0 {
			return d.app.print(d.line("would redrive", chosen))
		}
		return d.app.print(d.line("redrove", r.Redriven))
	}
	return d.app.printObject(struct {
		Action   string `json:"action"`
		DryRun   bool   `json:"dry_run"`
		Stream   string `json:"stream"`
		Group    string `json:"group"`
		Chosen   int    `json:"chosen"`
		Redriven int    `json:"redriven"`
		Gone     int    `json:"gone"`
		Trimmed  int    `json:"trimmed"`
		Busy     int    `json:"busy"`
		Ahead    int    `json:"ahead"`
		Foreign  int    `json:"foreign"`
	}{"redrive", d.dryRun, d.addr.String(), d.group, chosen, r.Redriven, r.Gone, len(r.Trimmed), len(r.Busy), len(r.Ahead), len(r.Foreign)})
}

func (d *dead) drop(ctx context.Context, client *tier.Client, ids []codec.EntryID) error {
	dropped := 0
	agreed, err := d.agreed(ctx, "drop", len(ids))
	if agreed {
		dropped, err = stream.DropLetters(ctx, client, d.addr.String(), d.group, ids)
		if err != nil {
			err = fmt.Errorf("%d of %s dropped for certain, run it again for the rest: %w", dropped, show.Count(len(ids), "dead letter"), err)
		}
	}
	if err != nil {
		return err
	}
	if !d.app.json() {
		if d.dryRun || len(ids) == 0 {
			return d.app.print(d.line("would drop", len(ids)))
		}
		return d.app.print(d.line("dropped", dropped))
	}
	return d.app.printObject(struct {
		Action  string `json:"action"`
		DryRun  bool   `json:"dry_run"`
		Stream  string `json:"stream"`
		Group   string `json:"group"`
		Chosen  int    `json:"chosen"`
		Dropped int    `json:"dropped"`
	}{"drop", d.dryRun, d.addr.String(), d.group, len(ids), dropped})
}

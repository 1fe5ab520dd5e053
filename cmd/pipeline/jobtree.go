package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// tree reads the children of a job and, of those that have not completed, theirs: a
// flow has at most 4,096 jobs.
func tree(ctx context.Context, client *tier.Client, name string, id codec.ID) ([]childJSON, error) {
	jobs, err := queue.NewClient(client, queue.Config{Queue: name})
	if err != nil {
		return nil, err
	}
	children, err := childrenOf(ctx, jobs, id)
	for i := range children {
		if c := &children[i]; err == nil && c.Outcome != queue.ChildCompleted {
			err = c.grow(ctx, client)
		}
	}
	return children, err
}

// childrenOf are those of a job as it knows them, in the order in which they were made.
func childrenOf(ctx context.Context, jobs *queue.Client, id codec.ID) ([]childJSON, error) {
	list, err := jobs.Children(ctx, id)
	if errors.Is(err, queue.ErrNoJob) {
		return nil, nil // it has ended meanwhile
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b queue.Child) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	children := make([]childJSON, len(list))
	for i := range list {
		children[i] = childOf(&list[i])
	}
	return children, nil
}

// grow looks where a child is that has not completed, and for its children.
func (c *childJSON) grow(ctx context.Context, client *tier.Client) error {
	jobs, err := queue.NewClient(client, queue.Config{Queue: c.Queue})
	if err != nil {
		return err
	}
	info, err := jobs.Get(ctx, c.Job)
	if errors.Is(err, queue.ErrNoJob) {
		return nil // it is on its way to its queue, or what it came to to its parent; or it is no more
	}
	if err != nil {
		return err
	}
	if c.State, c.Type, c.Reason = info.State, info.Message.Type, cmp.Or(c.Reason, info.Reason); info.Family {
		c.Children, err = tree(ctx, client, c.Queue, c.Job)
	}
	return err
}

// draw appends a line for each child, and those below it.
func draw(b *strings.Builder, children []childJSON, before string) {
	for i := range children {
		c, branch, below := &children[i], "├─ ", "│  "
		if i == len(children)-1 {
			branch, below = "└─ ", "   "
		}
		b.WriteString(before + branch + show.Printable(c.line()) + "\n")
		draw(b, c.Children, before+below)
	}
}

func (c *childJSON) line() string {
	is, result := string(c.Outcome), ""
	if c.Outcome == queue.ChildOpen {
		is = cmp.Or(string(c.State), "on its way")
	}
	if c.Result != nil {
		result = *c.Result
	}
	words := []string{c.Job.String()}
	for _, text := range []string{c.Queue, is, c.Type, result, c.Reason} {
		if text != "" {
			words = append(words, text)
		}
	}
	const widest = 200
	return show.Clip(strings.Join(words, "  "), widest)
}

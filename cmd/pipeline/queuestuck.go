package main

import (
	"context"
	"strings"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// stuckJSON is a job that waits for what does not come by itself.
type stuckJSON struct {
	Job      codec.ID         `json:"job"`
	Why      string           `json:"why,omitempty"`
	Children []stuckChildJSON `json:"children,omitempty"`
}

type stuckChildJSON struct {
	Job   codec.ID `json:"job"`
	Queue string   `json:"queue"`
	Why   string   `json:"why"`
	Lost  bool     `json:"lost"`
}

// stuckOf looks at every job of a queue that waits for children.
func stuckOf(ctx context.Context, client *tier.Client, name string) ([]stuckJSON, error) {
	list, err := queue.Stuck(ctx, client, name)
	stuck := make([]stuckJSON, len(list))
	for i, p := range list {
		stuck[i] = stuckJSON{Job: p.ID, Why: p.Why}
		for _, c := range p.Children {
			stuck[i].Children = append(stuck[i].Children, stuckChildJSON{c.ID, c.Queue, c.Why, c.Lost})
		}
	}
	return stuck, err
}

// stuckText is a line for each.
func stuckText(stuck []stuckJSON) string {
	var b strings.Builder
	for _, p := range stuck {
		if p.Why != "" {
			b.WriteString("stuck: " + p.Job.String() + " " + show.Printable(p.Why) + "\n")
		}
		for _, c := range p.Children {
			b.WriteString("stuck: " + p.Job.String() + " waits for " + c.Job.String() + " of " + c.Queue + ": " + show.Printable(c.Why) + "\n")
		}
	}
	return b.String()
}

// undelivered are findings of what a queue's audit leaves alone, since nothing is lost: children
// that have ended, of which nobody tells their parents.
func undelivered(ctx context.Context, client *tier.Client, name string) (findings []error, err error) {
	list, err := queue.Stuck(ctx, client, name)
	for _, p := range list {
		for _, c := range p.Children {
			if !c.Lost {
				findings = append(findings, &tier.Finding{
					Key: tier.Queue(name).ChildrenKey(p.ID.String()), Broken: "waits for " + c.ID.String() + " of " + c.Queue + ": " + c.Why,
				})
			}
		}
	}
	return findings, err
}

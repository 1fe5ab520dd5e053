package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// cursorsOf lists the cursors of a stream; one that is none has none.
func cursorsOf(ctx context.Context, client *tier.Client, addr tier.Address) ([]stream.CursorInfo, error) {
	if addr.Key != "" { // of another program: it has groups only
		return nil, nil
	}
	list, err := stream.Cursors(ctx, client, addr.String())
	if errors.Is(err, stream.ErrNoStream) || errors.Is(err, stream.ErrStreamRemoved) {
		return nil, nil
	}
	return list, err
}

// cursorNamed finds a cursor of a stream; nil: there is none of the name.
func cursorNamed(ctx context.Context, client *tier.Client, addr tier.Address, name string) (*stream.CursorInfo, error) {
	list, err := cursorsOf(ctx, client, addr)
	i := slices.IndexFunc(list, func(c stream.CursorInfo) bool { return c.Name == name })
	if i < 0 {
		return nil, err
	}
	return &list[i], nil
}

func cursorJSON(c *stream.CursorInfo, part string) any {
	since := ""
	if !c.PausedSince.IsZero() {
		since = c.PausedSince.UTC().Format(time.RFC3339)
	}
	return struct {
		Partition   string            `json:"partition,omitempty"`
		Kind        string            `json:"kind"`
		Group       string            `json:"group"`
		State       stream.GroupState `json:"state"`
		Lag         int64             `json:"lag"`
		LagExact    bool              `json:"lag_exact"`
		Parked      int64             `json:"parked"`
		Dead        int64             `json:"dead"`
		Owner       string            `json:"owner"`
		Epoch       uint64            `json:"epoch"`
		Crashes     int               `json:"crashes"`
		Checkpoint  string            `json:"checkpoint"`
		Age         float64           `json:"checkpoint_seconds"`
		Lease       float64           `json:"lease_seconds"`
		Paused      bool              `json:"paused"`
		PausedSince string            `json:"paused_since,omitempty"`
	}{
		part, "cursor", c.Name, c.State, c.Lag, c.LagExact, c.Parked, c.Dead, c.Owner, c.Epoch, c.Crashes,
		entryText(c.Checkpoint), c.CheckpointAge.Seconds(), c.Lease.Seconds(), c.Paused, since,
	}
}

func (a *app) cursorsTable(list []stream.CursorInfo) [][]string {
	rows := [][]string{{"CURSOR", "STATE", ">LAG", ">PARKED", ">DEAD", ">CRASHES", "OWNER", ">AGE", "CHECKPOINT", ">LEASE", ">EPOCH"}}
	for _, c := range list {
		owner := c.Owner
		if owner == "" {
			owner = "-"
		}
		rows = append(rows, []string{
			c.Name, string(c.State), cursorLag(&c), show.Number(c.Parked), show.Number(c.Dead), strconv.Itoa(c.Crashes), owner,
			ageText(!c.Checkpoint.IsZero(), c.CheckpointAge), dayTime(c.Checkpoint), show.Duration(c.Lease), strconv.FormatUint(c.Epoch, 10),
		})
	}
	return narrowed(rows, a.width(), 3)
}

func cursorLag(c *stream.CursorInfo) string {
	return lagText(&stream.GroupInfo{Lag: c.Lag, LagExact: c.LagExact})
}

// changeCursor is a change of a cursor, once it was confirmed.
func (c *groupChange) changeCursor(ctx context.Context, client *tier.Client, verb string, was *stream.CursorInfo) error {
	start := stream.Head()
	if v, err := versionNamed(ctx, client, c.addr, was.Name); v != nil || err != nil {
		if err == nil {
			err = usagef("%s is version %d of the projection %s, whose state goes with it: 'pipeline projections %s %s --name %s --version %d'",
				was.Name, v.Version, v.Projection, map[string]string{"move": "reset", "delete": "drop"}[verb], c.addr, v.Projection, v.Version)
		}
		return err
	}
	if verb == "move" {
		var err error
		if start, err = c.to.resolve(ctx, client, c.addr); err != nil {
			return err
		}
	}
	if !c.dryRun {
		if err := c.asked(ctx, c.cursorLine("would "+verb, was), c.group); err != nil {
			return err
		}
		cursor, err := stream.NewCursor(client, stream.CursorConfig{Address: c.addr.String(), Name: c.group, Start: start})
		if err != nil {
			return err
		}
		if verb == "move" {
			err = cursor.Reset(ctx, start)
		} else {
			err = cursor.Delete(ctx)
		}
		if err != nil {
			return err
		}
	}
	return c.printCursor(verb, was)
}

func (c *groupChange) cursorLine(verb string, was *stream.CursorInfo) string {
	to, dead, owner := "", "", "nobody owns it"
	if c.to.text != "" {
		to = " to " + c.to.text
	}
	if was.Dead > 0 {
		dead = "; " + show.Count(int(was.Dead), "dead letter") + ", which stay"
	}
	if was.Owner != "" {
		owner = "owned by " + was.Owner
	}
	return fmt.Sprintf("%s cursor %s of %s%s: lag %s; %s parked, which it forgets; %s%s\n", verb, was.Name, c.addr, to, cursorLag(was), show.Number(was.Parked), owner, dead)
}

func (c *groupChange) printCursor(verb string, was *stream.CursorInfo) error {
	if !c.app.json() {
		did := map[string]string{"move": "moved", "delete": "deleted"}[verb]
		if c.dryRun {
			did = "would " + verb
		}
		return c.app.print(c.cursorLine(did, was))
	}
	return c.app.printObject(struct {
		Action   string `json:"action"`
		DryRun   bool   `json:"dry_run"`
		Stream   string `json:"stream"`
		Group    string `json:"group"`
		To       string `json:"to,omitempty"`
		Lag      int64  `json:"lag"`
		LagExact bool   `json:"lag_exact"`
		Parked   int64  `json:"parked"`
		Dead     int64  `json:"dead"`
		Owner    string `json:"owner"`
	}{verb + "-cursor", c.dryRun, c.addr.String(), c.group, c.to.text, was.Lag, was.LagExact, was.Parked, was.Dead, was.Owner})
}

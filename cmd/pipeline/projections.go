package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func projectionsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "projections ADDR",
		Short: "List the projections of a stream, and its other cursors; switch, reset or drop one",
		Long: `List the versions of the projections of a stream, and its other cursors. LIVE is
yes for the version that readers are to use. OWNER is who folds at present, "-"
when nobody does, EPOCH grows whenever that changes. LAG is how many entries (a
pack is one) are not folded yet, "~" marks the most it can be. PARKED is how many
wait to be tried again, DEAD how many dead letters there are ('pipeline dead'
shows them, --group NAME.VERSION). CRASHES is how often the owner died without
getting any further. CHECKPOINT is up to where all is folded.`,
		Example: `  pipeline projections shop/orders`,
		Args:    arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			addr, err := tier.ParseAddress(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.projections(ctx, client, addr)
			})
		},
	}
	cmd.AddCommand(projectionSwitch(a), projectionReset(a), projectionDrop(a))
	return cmd
}

func (a *app) projections(ctx context.Context, client *tier.Client, addr tier.Address) error {
	all, err := addresses(ctx, client, addr)
	if err != nil {
		return err
	}
	for k, one := range all {
		list, err := projection.List(ctx, client, one.String())
		if err != nil {
			return err
		}
		a.done += len(list)
		now, err := client.Now(ctx, one.LogKey())
		if err != nil {
			return err
		}
		rows := [][]string{{"PROJECTION", ">VERSION", "LIVE", ">LAG", ">PARKED", ">DEAD", "OWNER", ">EPOCH", ">CRASHES", "CHECKPOINT"}}
		for i := range list {
			row := projectionOf(one, &list[i])
			if !list[i].Owned(now) {
				row.Owner = ""
			}
			if a.json() {
				if err := a.printObject(row); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, row.cells())
		}
		if len(list) == 0 {
			a.note("%s has no projections, and no other cursors", one)
		} else if !a.json() {
			if one != addr {
				err = a.print(fmt.Sprintf("%s@%d\n", addr, k))
			}
			if err := errors.Join(err, a.print(show.Table(narrowed(rows, a.width(), 4)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// versionNamed is the version of a projection whose cursor has the name; nil: none is. Whoever else moves that cursor, or handles
// what it is to fold, leaves a state that lacks messages, or has them twice.
func versionNamed(ctx context.Context, client *tier.Client, addr tier.Address, cursor string) (*projection.Info, error) {
	list, err := projection.List(ctx, client, addr.String())
	if errors.Is(err, stream.ErrNoStream) || errors.Is(err, stream.ErrStreamRemoved) {
		return nil, nil
	}
	for i := range list {
		if list[i].Name == cursor && list[i].Version > 0 {
			return &list[i], nil
		}
	}
	return nil, err
}

// projectionJSON is a version of a projection, or a cursor: version 0.
type projectionJSON struct {
	Stream     string  `json:"stream"`
	Projection string  `json:"projection"`
	Version    int     `json:"version"`
	Live       bool    `json:"live"`
	Lag        int64   `json:"lag"`
	LagExact   bool    `json:"lag_exact"`
	Parked     int64   `json:"parked"`
	Dead       int64   `json:"dead"`
	Owner      string  `json:"owner"`
	Epoch      uint64  `json:"epoch"`
	Crashes    int     `json:"crashes"`
	Checkpoint string  `json:"checkpoint"`
	Lease      float64 `json:"lease_seconds"`
}

func projectionOf(addr tier.Address, i *projection.Info) projectionJSON {
	return projectionJSON{
		addr.String(), i.Projection, i.Version, i.Live, i.Lag, i.LagExact, i.Parked, i.Dead, i.Owner, i.Epoch, i.Crashes,
		entryText(i.Checkpoint), i.Lease.Seconds(),
	}
}

func (p *projectionJSON) cells() []string {
	or := func(is bool, text string) string {
		if is {
			return text
		}
		return "-"
	}
	lag := show.Number(p.Lag)
	if !p.LagExact {
		lag = "~" + lag
	}
	return []string{
		p.Projection, or(p.Version > 0, show.Number(int64(p.Version))), or(p.Live, "yes"), lag, show.Number(p.Parked), show.Number(p.Dead),
		or(p.Owner != "", p.Owner), strconv.FormatUint(p.Epoch, 10), strconv.Itoa(p.Crashes), or(p.Checkpoint != "", p.Checkpoint),
	}
}

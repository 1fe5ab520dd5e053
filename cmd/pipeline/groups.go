package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func groupsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "groups ADDR",
		Short: "List the groups of a stream: how far each is, and what it holds",
		Long: `List the groups of a stream. LAG is how many entries (a pack is one) the group
was not given yet; "~" marks the least it can be, where the server cannot tell.
PENDING is how many were given to consumers and are not acknowledged. The ages
are those of the oldest entry not given yet and of the oldest pending one.

CONSUMERS is how many take part; one that died counts until another has taken
over what it held. DEAD is how many entries were put aside, with the reason,
because they cannot be decoded. LEASE is how long a consumer may be silent before
the others take over what it holds.`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			addr, err := tier.ParseAddress(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.groups(ctx, client, addr)
			})
		},
	}
}

func (a *app) groups(ctx context.Context, client *tier.Client, addr tier.Address) error {
	list, err := stream.Groups(ctx, client, addr.String())
	if err != nil {
		return err
	}
	if len(list) == 0 {
		r, err := stream.NewReader(client, stream.ReaderConfig{Address: addr.String()})
		if err == nil {
			_, err = r.Identity(ctx)
		}
		if err != nil {
			return err
		}
		a.note("%s has no groups: 'pipeline consume %s --group NAME' makes one", addr, addr)
		return nil
	}
	a.done = len(list)
	return printList(a, list, groupsTable, groupJSON)
}

func groupJSON(g stream.GroupInfo) any {
	return struct {
		Group         string  `json:"group"`
		Lag           int64   `json:"lag"`
		LagExact      bool    `json:"lag_exact"`
		Pending       int64   `json:"pending"`
		Consumers     int64   `json:"consumers"`
		Dead          int64   `json:"dead"`
		OldestUnread  string  `json:"oldest_unread"`
		UnreadAge     float64 `json:"oldest_unread_seconds"`
		OldestPending string  `json:"oldest_pending"`
		PendingAge    float64 `json:"oldest_pending_seconds"`
		LastDelivered string  `json:"last_delivered"`
		Lease         float64 `json:"lease_seconds"`
	}{
		g.Name, g.Lag, g.LagExact, g.Pending, g.Consumers, g.Dead,
		entryText(g.OldestUnread), g.OldestUnreadAge.Seconds(), entryText(g.OldestPending), g.OldestPendingAge.Seconds(),
		entryText(g.LastDelivered), g.Lease.Seconds(),
	}
}

func groupsTable(list []stream.GroupInfo) [][]string {
	rows := [][]string{{"GROUP", ">LAG", ">PENDING", ">CONSUMERS", ">DEAD", ">OLDEST UNREAD", ">OLDEST PENDING", ">LEASE"}}
	for _, g := range list {
		lag := show.Number(g.Lag)
		if !g.LagExact {
			lag = "~" + lag
		}
		rows = append(rows, []string{
			g.Name, lag, show.Number(g.Pending), show.Number(g.Consumers), show.Number(g.Dead),
			ageText(!g.OldestUnread.IsZero(), g.OldestUnreadAge), ageText(!g.OldestPending.IsZero(), g.OldestPendingAge),
			ageText(g.Lease > 0, g.Lease),
		})
	}
	return rows
}

func ageText(some bool, age time.Duration) string {
	if !some {
		return "-"
	}
	return show.Duration(age)
}

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func groupsCommand(a *app) *cobra.Command {
	var consumers bool
	cmd := &cobra.Command{
		Use:   "groups ADDR",
		Short: "List the groups and cursors of a stream: how far each is, and what it holds",
		Long: `List the groups of a stream, and its cursors, which are groups that one consumer
at a time owns. LAG is how many entries (a pack is one) the group was not given
yet; "~" marks the most it can be, where the server cannot tell.
PENDING is how many were given to consumers and are not acknowledged, PARKED how
many failed and wait to be tried again. The ages are those of the oldest entry not
given yet and of the oldest pending one.

STATE is active when a consumer is alive, idle when none is and there is nothing
to do, dead when none is and entries are unread, pending or parked; and paused,
whoever is alive, from 'pipeline group pause' on. CONSUMERS is how many take part;
one that died counts until another has taken over what it held. DEAD is how many
dead letters there are, messages that were given up ('pipeline dead' shows them).

NEXT DUE is when the first parked entry is tried again, OLDEST PARKED and OLDEST
DEAD how old the oldest of each is (of more than 200 parked ones, of those due
first and last). LEASE is how long a consumer may be silent before the others
take over what it holds. START is where the group was made to begin, FLOOR up to
where everything is settled. Narrow terminals leave these out, the last first.

Of a cursor, OWNER is who owns it, and EPOCH grows whenever it changes hands.
STATE is active while somebody owns it, dead when nobody does and there is
something to do. CRASHES is how often it was taken over at its checkpoint: with
two, what comes next is taken one entry at a time, as it may be what ends its
owners. CHECKPOINT is the entry up to which all is handled, parked or given up,
AGE how long ago that one was appended.

With --consumers, the consumers follow: members are those of this program and its
library, which beat; raw are all others, by when the server last heard them. A
LEASE that has ended means that it holds entries and is silent.`,
		Example: `  pipeline groups shop/orders --consumers`,
		Args:    arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			addr, err := tier.ParseAddress(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.partsGroups(ctx, client, addr, consumers)
			})
		},
	}
	cmd.Flags().BoolVar(&consumers, "consumers", false, "list the consumers of each group, too")
	return cmd
}

func (a *app) groups(ctx context.Context, client *tier.Client, addr tier.Address, consumers bool, part string) error {
	list, err := stream.GroupDetails(ctx, client, addr.String())
	if err != nil {
		return err
	}
	cursors, err := cursorsOf(ctx, client, addr)
	if err != nil {
		return err
	}
	if len(list)+len(cursors) == 0 {
		if err := declared(ctx, client, addr); err != nil {
			return err
		}
		a.note("%s has no groups: 'pipeline consume %s --group NAME' makes one", addr, addr)
		return nil
	}
	a.done = len(list) + len(cursors)
	if a.json() {
		for i := range list {
			if err := a.printObject(groupJSON(&list[i], consumers, part)); err != nil {
				return err
			}
		}
		for i := range cursors {
			if err := a.printObject(cursorJSON(&cursors[i], part)); err != nil {
				return err
			}
		}
		return nil
	}
	var tables []string
	if len(list) > 0 {
		tables = append(tables, show.Table(a.groupsTable(list)))
	}
	if len(cursors) > 0 {
		tables = append(tables, show.Table(a.cursorsTable(cursors)))
	}
	if err := a.print(strings.Join(tables, "\n")); err != nil || !consumers || len(list) == 0 {
		return err
	}
	if !slices.ContainsFunc(list, func(g stream.GroupDetail) bool { return len(g.Who) > 0 }) {
		a.note("no group of %s has a consumer", addr)
		return nil
	}
	return a.print("\n" + show.Table(consumersTable(list)))
}

// declared is nil when somebody has declared the stream.
func declared(ctx context.Context, client *tier.Client, addr tier.Address) error {
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: addr.String()})
	if err == nil {
		_, err = r.Identity(ctx)
	}
	return err
}

type consumerJSON struct {
	Consumer string   `json:"consumer"`
	Kind     string   `json:"kind"`
	Pending  int64    `json:"pending"`
	Idle     float64  `json:"idle_seconds"`
	Beat     *float64 `json:"beat_seconds"`
	Overdue  bool     `json:"lease_ended"`
}

func groupJSON(g *stream.GroupDetail, consumers bool, part string) any {
	var who []consumerJSON
	if consumers {
		who = make([]consumerJSON, len(g.Who))
		for i, c := range g.Who {
			who[i] = consumerJSON{Consumer: c.Name, Kind: kindOf(&c), Pending: c.Pending, Idle: c.Idle.Seconds(), Overdue: c.Overdue}
			if c.Member {
				beat := c.Silence.Seconds()
				who[i].Beat = &beat
			}
		}
	}
	var due *float64
	if g.Parked > 0 {
		seconds := g.DueIn.Seconds()
		due = &seconds
	}
	since := ""
	if !g.PausedSince.IsZero() {
		since = g.PausedSince.UTC().Format(time.RFC3339)
	}
	return struct {
		Partition     string            `json:"partition,omitempty"`
		Kind          string            `json:"kind"`
		Group         string            `json:"group"`
		State         stream.GroupState `json:"state"`
		Lag           int64             `json:"lag"`
		LagExact      bool              `json:"lag_exact"`
		Pending       int64             `json:"pending"`
		Parked        int64             `json:"parked"`
		Consumers     int64             `json:"consumers"`
		Dead          int64             `json:"dead"`
		OldestUnread  string            `json:"oldest_unread"`
		UnreadAge     float64           `json:"oldest_unread_seconds"`
		OldestPending string            `json:"oldest_pending"`
		PendingAge    float64           `json:"oldest_pending_seconds"`
		LastDelivered string            `json:"last_delivered"`
		Start         string            `json:"start"`
		Floor         string            `json:"floor"`
		Lease         float64           `json:"lease_seconds"`
		Paused        bool              `json:"paused"`
		PausedSince   string            `json:"paused_since,omitempty"`
		NextDue       *float64          `json:"next_due_seconds"`
		OldestParked  string            `json:"oldest_parked"`
		ParkedAge     float64           `json:"oldest_parked_seconds"`
		OldestDead    string            `json:"oldest_dead"`
		DeadAge       float64           `json:"oldest_dead_seconds"`
		Who           []consumerJSON    `json:"consumer_list,omitzero"`
	}{
		part, "group", g.Name, g.State, g.Lag, g.LagExact, g.Pending, g.Parked, g.Consumers, g.Dead,
		entryText(g.OldestUnread), g.OldestUnreadAge.Seconds(), entryText(g.OldestPending), g.OldestPendingAge.Seconds(),
		entryText(g.LastDelivered), entryText(g.Start), entryText(g.Floor), g.Lease.Seconds(), g.Paused, since, due,
		entryText(g.OldestParked), g.OldestParkedAge.Seconds(), entryText(g.OldestDead), g.OldestDeadAge.Seconds(), who,
	}
}

func (a *app) groupsTable(list []stream.GroupDetail) [][]string {
	rows := [][]string{{
		"GROUP", "STATE", ">LAG", ">PENDING", ">PARKED", ">CONSUMERS", ">DEAD", ">OLDEST UNREAD", ">OLDEST PENDING",
		">NEXT DUE", ">OLDEST PARKED", ">OLDEST DEAD", ">LEASE", "START", "FLOOR",
	}}
	for _, g := range list {
		rows = append(rows, []string{
			g.Name, string(g.State), lagText(&g.GroupInfo), show.Number(g.Pending), show.Number(g.Parked), show.Number(g.Consumers), show.Number(g.Dead),
			ageText(!g.OldestUnread.IsZero(), g.OldestUnreadAge), ageText(!g.OldestPending.IsZero(), g.OldestPendingAge),
			ageText(g.Parked > 0, g.DueIn), ageText(!g.OldestParked.IsZero(), g.OldestParkedAge), ageText(!g.OldestDead.IsZero(), g.OldestDeadAge),
			ageText(g.Lease > 0, g.Lease), dayTime(g.Start), dayTime(g.Floor),
		})
	}
	return narrowed(rows, a.width(), 6)
}

// narrowed leaves the last columns out, at most so many, while the table is wider than a terminal; 0 is any width.
func narrowed(rows [][]string, width, most int) [][]string {
	total := func() (n int) {
		for i := range rows[0] {
			widest := 0
			for _, row := range rows {
				widest = max(widest, show.Width(row[i]))
			}
			n += widest + 2
		}
		return n - 2
	}
	for ; width > 0 && most > 0 && total() > width; most-- {
		for i := range rows {
			rows[i] = rows[i][:len(rows[i])-1]
		}
	}
	return rows
}

func consumersTable(list []stream.GroupDetail) [][]string {
	rows := [][]string{{"GROUP", "CONSUMER", "KIND", ">PENDING", ">IDLE", ">LAST BEAT", "LEASE"}}
	for _, g := range list {
		for _, c := range g.Who {
			lease := "holds"
			switch {
			case c.Overdue:
				lease = "ended"
			case c.Pending == 0:
				lease = "-"
			}
			rows = append(rows, []string{
				g.Name, c.Name, kindOf(&c), show.Number(c.Pending), show.Duration(c.Idle), ageText(c.Member, c.Silence), lease,
			})
		}
	}
	return rows
}

func kindOf(c *stream.ConsumerInfo) string {
	if c.Member {
		return "member"
	}
	return "raw"
}

func lagText(g *stream.GroupInfo) string {
	if g.LagExact {
		return show.Number(g.Lag)
	}
	return "~" + show.Number(g.Lag)
}

func ageText(some bool, age time.Duration) string {
	if !some {
		return "-"
	}
	return show.Duration(age)
}

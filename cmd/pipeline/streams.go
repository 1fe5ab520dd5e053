package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func streamsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "streams [SCOPE]",
		Short: "List the streams, of all scopes or of one",
		Long: `List the streams of all scopes, or of one: brand, entries (a pack is one),
entries ever added, the first entry there is and the last one given, groups. The
table leaves ADDED out where all that was added is there, and seconds; JSON has
everything.`,
		Args: arguments(0, 1, "the name of a scope, or nothing"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, scope := range args {
				if err := tier.CheckName("scope", scope); err != nil {
					return err
				}
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.streams(ctx, client, args)
			})
		},
	}
}

func (a *app) streams(ctx context.Context, client *tier.Client, scopes []string) (err error) {
	named := len(scopes) > 0
	given := scopes
	if named {
		scopes, err = parts(ctx, client, scopes[0])
	} else {
		scopes, err = client.Scopes(ctx)
	}
	if err != nil {
		return err
	}
	var table []stream.Info // whose columns are known at the end
	for _, scope := range scopes {
		for info, err := range stream.Streams(ctx, client, scope) {
			switch {
			case err != nil:
				return err
			case a.json():
				err = a.printObject(streamJSON(info))
			default:
				table = append(table, info)
			}
			if err != nil {
				return err
			}
			a.done++
		}
	}
	switch {
	case a.done > 0 && !a.json():
		return a.print(show.Table(streamsTable(table)))
	case a.done == 0 && named:
		return notFound(fmt.Sprintf("scope %s has no streams: check its name ('pipeline streams' lists all), or append to one first", given[0]))
	case a.done == 0:
		a.note("no streams yet: 'pipeline produce shop/orders FILE' makes one")
	}
	return nil
}

func streamJSON(s stream.Info) any {
	return struct {
		Stream    string      `json:"stream"`
		Brand     codec.Brand `json:"brand"`
		Exclusive bool        `json:"exclusive,omitempty"`
		Keyed     bool        `json:"keyed,omitempty"`
		Removed   bool        `json:"removed,omitempty"`
		Entries   int64       `json:"entries"`
		Added     int64       `json:"added"`
		First     string      `json:"first"`
		Last      string      `json:"last"`
		Groups    int64       `json:"groups"`
	}{streamName(s), s.Brand, s.Exclusive, s.Keyed, s.Removed, s.Length, s.Added, entryText(s.First), entryText(s.Last), s.Groups}
}

func streamsTable(list []stream.Info) [][]string {
	rows := [][]string{{"STREAM", "BRAND", ">ENTRIES", ">ADDED", "FIRST", "LAST", ">GROUPS"}}
	trimmed := false
	for _, s := range list {
		first, last := dayTime(s.First), dayTime(s.Last)
		if s.Removed {
			first, last = "removed", ""
		}
		trimmed = trimmed || s.Added != s.Length
		rows = append(rows, []string{
			streamName(s), string(s.Brand), show.Number(s.Length), show.Number(s.Added), first, last, show.Number(s.Groups),
		})
	}
	if !trimmed {
		const added = 3
		for i := range rows {
			rows[i] = slices.Delete(rows[i], added, added+1)
		}
	}
	return rows
}

// streamName is the address of a stream as a person writes it: that of one in a partition has its number behind it.
func streamName(s stream.Info) string {
	if k, _, ok := strings.Cut(s.Partition, "/"); ok {
		return strings.TrimSuffix(s.Address.Scope, "."+k) + "/" + s.Address.Stream + "@" + k
	}
	return s.Address.String()
}

// entryText is "" for no entry.
func entryText(e codec.EntryID) string {
	if e.IsZero() {
		return ""
	}
	return e.String()
}

func dayTime(e codec.EntryID) string {
	if e.IsZero() {
		return "-"
	}
	return e.Time().Format("2006-01-02 15:04")
}

package main

import (
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/benchmarks/capacity"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
)

func capacityCommand(a *app) *cobra.Command {
	load := capacity.Load{Size: 200, Key: 12, Type: 12, Rate: 1000, Keep: 24 * time.Hour, Groups: 1}
	percent := 100
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Work out the memory, disk and network that a stream takes of its server",
		Long: `Work out the memory, disk and network that a stream takes of its server. It is
arithmetic, for which no server is asked. CPU time is what 'pipeline bench'
measures.`,
		Example: `  pipeline capacity --size 500 --rate 5000 --keep 24h --groups 2
  pipeline capacity --size 500 --rate 5000 --keep 24h --pack 100 --compressed 30`,
		Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("compressed") {
				load.Compressed = float64(percent) / 100
			}
			e, err := load.Estimate()
			if err != nil {
				return &usageError{err}
			}
			if a.json() {
				return a.printObject(&e)
			}
			return a.print(capacityText(&e))
		},
	}
	f := cmd.Flags()
	f.Var(number(&load.Size, 0, capacity.MaxSize), "size", "bytes of data of a message")
	f.Var(number(&load.Key, 0, 1024), "key", "bytes of its key")
	f.Var(number(&load.Type, 0, 255), "type", "bytes of its type")
	f.Var(number(&load.Headers, 0, 1<<20), "headers", "bytes of its headers, with their names (default 0)")
	f.Var(perSecond(&load.Rate), "rate", "messages a second (default 1000)")
	f.Var(duration(&load.Keep), "keep", "how long they stay (default 24h)")
	f.Var(number(&load.Pack, 1, codec.MaxPack), "pack", "messages of an entry (default 1)")
	f.Var(number(&percent, 1, 100), "compressed", "percent that compression leaves of a pack; leave it out for none")
	f.Var(number(&load.Groups, 0, math.MaxInt), "groups", "groups that read all of them")
	f.Var(number(&load.Replicas, 0, math.MaxInt), "replicas", "replicas of the server (default 0)")
	return cmd
}

func capacityText(e *capacity.Estimate) string {
	bytes := func(f float64) string { return show.Bytes(int64(min(math.Round(f), math.MaxInt64/2))) }
	return show.Table([][]string{
		{"a message, encoded", ">" + show.Bytes(int64(e.Encoded))},
		{"a message, in memory", bytes(e.PerMessage)},
		{"messages", show.Number(int64(e.Messages))},
		{"memory", bytes(e.Memory)},
		{"network in, a second", bytes(e.NetworkIn)},
		{"network out, a second", bytes(e.NetworkOut)},
		{"append-only file, a second", bytes(e.File)},
		{"append-only file, at most", bytes(e.FileMost)},
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
)

// sweep is a run of the sweeper.
type sweep struct {
	app     *app
	of      scoped
	follow  bool
	beat    time.Duration
	settle  time.Duration
	temp    string
	metrics metrics
}

func retentionRun(a *app) *cobra.Command {
	s := &sweep{app: a}
	cmd := &cobra.Command{
		Use:   "run SCOPE|ADDR",
		Short: "Take away what the policies of a scope let go",
		Long: `Take away what the policies of a scope, or of one stream, let go, and nobody needs.
With --follow it goes on until it is interrupted, at each --beat, archives the streams
whose policy says so, and waits while another does: of all that run for a scope, one
works.`,
		Example: `  pipeline retention run shop
  pipeline retention run shop --follow --metrics :9100 --timeout 1s`,
		Args: arguments(1, 1, wantsScope),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.of, err = parseScoped(args[0]); err != nil {
				return err
			}
			if !s.follow && s.metrics.addr != "" {
				return usagef("--metrics %s: it needs --follow", s.metrics.addr)
			}
			a.logs = s.follow
			return a.withClient(cmd.Context(), s.run)
		},
	}
	cmd.Flags().BoolVar(&s.follow, "follow", false, "go on until interrupted")
	cmd.Flags().Var(duration(&s.beat), "beat", "how often, with --follow (default 5s)")
	cmd.Flags().Var(age(&s.settle), "settle", "with --follow, how old an entry is that is archived (default 10s)")
	cmd.Flags().StringVar(&s.temp, "temp", "", "where segments are written before they go to the store (default: the system's)")
	s.metrics.flag(cmd)
	return cmd
}

// sweepers are one for the scope, or for each of its partitions.
func (s *sweep) sweepers(ctx context.Context, client *tier.Client) ([]*retention.Sweeper, error) {
	scopes, err := parts(ctx, client, s.of.scope)
	if err != nil {
		return nil, err
	}
	sweepers := make([]*retention.Sweeper, len(scopes))
	for i, scope := range scopes {
		sweepers[i], err = retention.NewSweeper(client, retention.SweeperConfig{
			Scope: scope, Stream: s.of.stream, Beat: s.beat, Registerer: s.metrics.registerer(), Stores: openStore, Settle: s.settle, Temp: s.temp,
		})
		if err != nil {
			return nil, err
		}
	}
	return sweepers, nil
}

func (s *sweep) run(ctx context.Context, client *tier.Client) error {
	stop, err := s.metrics.serve(ctx, s.app)
	if err != nil {
		return err
	}
	defer stop()
	sweepers, err := s.sweepers(ctx, client)
	if err != nil {
		return err
	}
	if !s.follow {
		return s.once(ctx, sweepers)
	}
	s.app.note("sweeping %s; interrupt to end", s.of)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running conc.WaitGroup
	for _, sweeper := range sweepers {
		running.Go(func() {
			if err := sweeper.Run(ctx); err != nil {
				cancel(err) // the others end, too
			}
		})
	}
	running.Wait()
	if class := tier.Classify(context.Cause(ctx)); class != nil {
		return context.Cause(ctx)
	}
	return nil // it ends when it is told to
}

func (s *sweep) once(ctx context.Context, sweepers []*retention.Sweeper) error {
	var failed error
	rows := [][]string{{"STREAM", ">WENT", ">LEFT", ">HELD", ">DROPPED"}}
	for _, sweeper := range sweepers {
		list, err := sweeper.Once(ctx)
		if err != nil {
			return err
		}
		for _, swept := range list {
			s.app.done++
			if swept.Err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", swept.Address, swept.Err))
			}
			if s.app.json() {
				if err := s.app.printObject(sweptJSON(&swept)); err != nil {
					return err
				}
			}
			for _, g := range swept.Retired {
				s.app.warn("group %s of %s was dead, and is deleted: it held %d pending and %d parked", g.Group, swept.Address, g.Pending, g.Parked)
			}
			rows = append(rows, []string{
				swept.Address.String(), show.Number(swept.Entries), show.Number(swept.Left), show.Number(swept.Over), show.Number(sum(swept.Dropped)),
			})
		}
	}
	if len(rows) == 1 {
		s.app.note("%s has no policies, and keeps everything: 'pipeline retention set' makes one", s.of)
	} else if !s.app.json() {
		failed = errors.Join(s.app.print(show.Table(rows)), failed)
	}
	return failed
}

func sweptJSON(s *retention.Swept) any {
	problem := ""
	if s.Err != nil {
		problem = oneLine(s.Err)
	}
	var retired []string
	for _, g := range s.Retired {
		retired = append(retired, g.Group)
	}
	return struct {
		Stream  string           `json:"stream"`
		Went    int64            `json:"went"`
		Left    int64            `json:"left"`
		Held    int64            `json:"held"`
		Dropped map[string]int64 `json:"dropped"`
		Retired []string         `json:"retired,omitempty"`
		Error   string           `json:"error,omitempty"`
	}{s.Address.String(), s.Entries, s.Left, s.Over, droppedJSON(s.Dropped), retired, problem}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// consume is the command's flags.
type consume struct {
	app         *app
	addr        tier.Address
	group       string
	start       start
	count       int
	wait        time.Duration
	concurrency int
	deliveries  int
	backoff     time.Duration
	order       consumer.Order
	exclusive   bool
	partitioned bool // the stream is
	exec        *command
	metrics     metrics
}

func consumeCommand(a *app) *cobra.Command {
	c := &consume{app: a, concurrency: 1, start: start{text: "head"}}
	cmd := &cobra.Command{
		Use:   "consume ADDR --group NAME",
		Short: "Handle the messages of a stream as a consumer of a group",
		Long: `Handle the messages of a stream as a consumer of a group: each message goes to
one consumer of the group, and to another when that one dies. Run it several
times to share the work. A message is printed, or given to --exec, before it is
acknowledged: none is lost, and some may come twice.

The group is made when it does not exist, and begins at --start; one that exists
goes on where it is.

--exec runs a command for each message, with the message as JSON on its standard
input and its id in PIPELINE_MESSAGE_ID. Exit code 0 acknowledges; with any
other the message comes again, after a pause of up to --backoff that doubles with
each failure, up to 10 minutes. After --max-deliveries it goes to the group's dead
letters (pipeline dead). The command is split into words, without a
shell; for one write --exec "sh -c '...'". Of the environment it gets PATH,
HOME, LANG, TZ and USER.

--order key handles the messages of one key one after another, as they stand in
the stream, and strict does so with all of them, with --concurrency 1. One that
fails holds up those behind it until it is handled or given up. Each consumer of
a group keeps the order of what it handles. With --exclusive the order is that of
the stream, whoever comes and goes: of all that run with it under the name, a
cursor, one at a time handles messages, and the others stand by. A new cursor
begins with what the archive has, a group with what the stream still has.

Of a stream with partitions, those that run it share the partitions out, each with
one owner at a time, by a cursor in each; --concurrency is for each partition, and
order is that of the stream within a partition, so of each key. One that joins or
dies changes who owns what. --count may be exceeded by what is being handled.`,
		Example: `  pipeline consume shop/orders --group mailer
  pipeline consume shop/orders --group mailer --exec ./send-mail --concurrency 4
  pipeline consume shop/orders --group audit --count 100 --wait 5s
  pipeline consume shop/orders --group ledger --exclusive --order key --wait 5s`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if c.addr, err = tier.ParseAddress(args[0]); err != nil {
				return err
			}
			if c.group == "" {
				return usagef("want the name of a group: pipeline consume %s --group NAME", c.addr)
			}
			if c.order == consumer.Strict && c.concurrency > 1 {
				return usagef("--order strict handles one message at a time: want --concurrency 1, or --order key")
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.Var(name(&c.group, "group"), "group", "name of the group, or of the cursor with --exclusive")
	f.Var(&value{text: c.start.text, kind: "new|head|ID|TIME", set: c.start.set}, "start", "where a new group begins: head is the oldest message, new what is appended from now on")
	f.Var(number(&c.count, 1, math.MaxInt), "count", "stop after this many messages; a pack is handled to its end")
	f.Var(duration(&c.wait), "wait", "stop when no message came for this long; exit code 4 if none came at all")
	f.Var(number(&c.concurrency, 1, 1024), "concurrency", "handle this many messages at the same time")
	f.Var(&value{text: c.order.String(), kind: "none|key|strict", set: c.setOrder}, "order", "what messages wait for each other")
	f.BoolVar(&c.exclusive, "exclusive", false, "handle messages only while no other consumer of the name does: a cursor, not a group")
	f.Var(number(&c.deliveries, 1, math.MaxInt), "max-deliveries", "give a message up after this many deliveries (default 20)")
	f.Var(duration(&c.backoff), "backoff", "longest pause after the first failure of a message (default 1s)")
	f.Var(commandLine(&c.exec), "exec", "command to run for each message")
	c.metrics.flag(cmd)
	return cmd
}

func (c *consume) setOrder(text string) (err error) {
	if c.order, err = consumer.ParseOrder(text); err != nil {
		return errors.New("want none, key or strict")
	}
	return nil
}

// start is where a new group begins.
type start struct {
	text  string
	place place
}

func (s *start) set(text string) error {
	s.text = text
	if text == "new" || text == "head" {
		return nil
	}
	if err := s.place.set(text); err != nil {
		return fmt.Errorf("want new, head, or a place: %w", err)
	}
	return nil
}

func (s *start) resolve(ctx context.Context, client *tier.Client, addr tier.Address) (stream.Start, error) {
	switch s.text {
	case "new":
		return stream.New(), nil
	case "head":
		return stream.Head(), nil
	}
	if s.place.point.IsTime() {
		err := s.place.countBack(ctx, client, addr)
		return stream.FromTime(s.place.point.Time), err
	}
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: addr.String()})
	if err == nil {
		err = errors.Join(s.place.belongs(ctx, client, addr), s.place.enter(ctx, r, true))
	}
	return stream.FromEntry(s.place.from()), err
}

func (c *consume) run(ctx context.Context) error {
	stop, err := c.metrics.serve(ctx, c.app)
	if err != nil {
		return err
	}
	defer stop()
	c.app.logs, c.app.exec = true, c.exec != nil
	return c.app.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		start, err := c.start.resolve(ctx, client, c.addr)
		if err != nil {
			return err
		}
		all, err := addresses(ctx, client, c.addr)
		if err != nil {
			return err
		}
		c.partitioned = all[0] != c.addr
		if err := c.foldsNothing(ctx, client); err != nil {
			return err
		}
		if err := c.metrics.stream(ctx, client, c.addr); err != nil {
			return err
		}
		defer c.app.watch(ctx, func(ctx context.Context) error {
			_, err := client.Now(ctx, c.addr.LogKey())
			return err
		})()
		begun := time.Now()
		job := &consumption{app: c.app, what: "message", count: c.count, wait: c.wait, perform: c.perform(), failing: c.failing}
		err = job.run(ctx, func(handler consumer.Handler) (runner, error) {
			return c.runner(client, start, job.tally, handler, consumer.Config{
				Concurrency: c.concurrency, MaxInFlight: maxInFlight(c.exec, c.concurrency), MaxDeliveries: c.deliveries, Backoff: c.backoff, Order: c.order,
				Logger: c.app.logger(), Registerer: c.metrics.registerer(),
			})
		})
		handled := job.tally.handled
		c.app.done = handled
		if handled == 0 && err != nil && !stoppedWaiting(err) {
			return err // which says why
		}
		c.app.note("%s handled by %s %s of %s in %s", show.Count(handled, "message"), c.kind(), c.group, c.addr, show.Duration(time.Since(begun)))
		return err
	})
}

// perform prints a message, or runs the command for it.
func (c *consume) perform() consumer.Handler {
	out := c.app.sink()
	return func(ctx context.Context, d *consumer.Delivery) error {
		if c.exec != nil {
			return c.exec.run(ctx, c.app, &d.Record)
		}
		return out.show(&d.Record)
	}
}

func (c *consume) failing(n int) error {
	return fmt.Errorf("%s failed and will come again, to any consumer of the %s: 'pipeline groups %s' shows what is parked", show.Count(n, "message"), c.kind(), c.addr)
}

// maxInFlight is few messages for commands, which are slow: what is fetched here, the
// other consumers do not get. Printing takes the default, which is 0.
func maxInFlight(exec *command, concurrency int) int {
	if exec == nil {
		return 0
	}
	return 4 * concurrency
}

// foldsNothing refuses the cursor of a projection.
func (c *consume) foldsNothing(ctx context.Context, client *tier.Client) error {
	if !c.exclusive || c.partitioned {
		return nil
	}
	v, err := versionNamed(ctx, client, c.addr, c.group)
	if v != nil {
		return usagef("%s is the cursor of the projection %s, which would lack what is handled here: choose another name", c.group, v.Projection)
	}
	if tier.Classify(err) == tier.ErrPermission {
		return nil // an owner need not see projections
	}
	return err
}

// kind is what the name is one of.
func (c *consume) kind() string {
	if c.exclusive || c.partitioned {
		return "cursor"
	}
	return "group"
}

// runner is a consumer, of whatever kind.
type runner interface {
	Run(ctx context.Context) error
}

// runner makes the consumer that the stream and the flags want.
func (c *consume) runner(client *tier.Client, start stream.Start, count *tally, handler consumer.Handler, cfg consumer.Config) (runner, error) {
	if c.partitioned {
		cursor, err := stream.NewPartitionedCursor(client, stream.CursorConfig{Address: c.addr.String(), Name: c.group, Start: start, Past: retention.NewPast(client, openStore)})
		if err != nil {
			return nil, err
		}
		return consumer.NewPartitioned(cursor, handler, cfg)
	}
	source, err := c.source(client, start)
	if err != nil {
		return nil, err
	}
	return consumer.New(count.source(source), handler, cfg)
}

func (c *consume) source(client *tier.Client, start stream.Start) (consumer.Source, error) {
	if c.exclusive {
		cursor, err := stream.NewCursor(client, stream.CursorConfig{Address: c.addr.String(), Name: c.group, Start: start, Past: retention.NewPast(client, openStore)})
		return consumer.Exclusive(cursor), err
	}
	group, err := stream.NewGroup(client, stream.GroupConfig{Address: c.addr.String(), Name: c.group, Start: start})
	return consumer.Group(group), err
}

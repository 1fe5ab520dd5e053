package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier"
)

// replaying is the replay command's flags.
type replaying struct {
	app      *app
	addr     tier.Address
	from, to place
	cfg      replay.Config
	speed    string
	exec     *command
	file     string
	command  string // exec as it was given
	target   string // a stream
	producer string
	store    string // of the archive
	dryRun   bool
}

func replayCommand(a *app) *cobra.Command {
	r := &replaying{app: a, speed: "max"}
	cmd := &cobra.Command{
		Use:   "replay ADDR",
		Short: "Give the history of a stream out once more: to a command, a stream or a file",
		Long: `Give the history of a stream out once more, oldest first, both ends included; a
PLACE is that of 'pipeline range'. Without --to it ends where the stream does when
it begins. Messages are printed, or go

  --exec CMD         to a command for each, as those of 'pipeline consume', with
                     PIPELINE_REPLAY=1; one that fails ends the replay
  --to-stream ADDR   into another stream, each once, with the header replay-of
  --out FILE         into a file that 'pipeline import' reads: .jsonl, or .parquet
                     as an archive has it, which other tools read

The same command goes on where it was interrupted: into a stream by what the
--producer has appended, into a .jsonl file behind its last message; a .parquet
file is there when it is whole. With --exec, it says at its end which command goes
on.

--speed 1x lets time go as it went, 10x ten times as fast, max does not wait.
--type and --key choose messages, and can be given more than once. --dry-run
counts.`,
		Example: `  pipeline replay shop/orders --from 2026-11-28 --exec ./rebuild
  pipeline replay shop/orders --from 1h --to 30m --speed 10x --to-stream test/orders
  pipeline replay shop/orders --type paid --out paid.jsonl`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.addr, err = tier.ParseAddress(args[0]); err != nil {
				return err
			}
			if err := r.check(); err != nil {
				return err
			}
			r.command = cmd.Flags().Lookup("exec").Value.String()
			a.logs, a.exec = true, r.exec != nil
			return a.withClient(cmd.Context(), r.run)
		},
	}
	r.from.flag(cmd, "from", "where to begin (default: at the oldest message)")
	r.to.flag(cmd, "to", "where to end (default: at the newest message)")
	f := cmd.Flags()
	f.Var(&value{text: r.speed, kind: "Nx|max", set: r.setSpeed}, "speed", "how fast time goes: 1x as it went, 10x, 0.5x; max: without waiting")
	f.Var(perSecond(&r.cfg.Rate), "rate", "messages per second at most")
	f.Var(texts(&r.cfg.Types, "TYPE", codec.MaxType), "type", "messages of this type; several: of any of them")
	f.Var(texts(&r.cfg.Keys, "KEY", codec.MaxKey), "key", "messages of this key; several: of any of them")
	f.Var(commandLine(&r.exec), "exec", "command to run for each message")
	f.Var(word(&r.target, "ADDR", 300), "to-stream", "stream to append the messages to, which is made when it does not exist")
	f.Var(name(&r.producer, "producer"), "producer", "who has appended what: another name begins anew (default: made of the address and the flags that choose)")
	f.Var(word(&r.file, "FILE", 4096), "out", "file to write the messages to")
	storeFlag(cmd, &r.store)
	f.BoolVar(&r.dryRun, "dry-run", false, "only count the messages")
	return cmd
}

func (r *replaying) setSpeed(s string) error {
	r.speed = s
	if s == "max" {
		r.cfg.Speed = 0
		return nil
	}
	number, times := strings.CutSuffix(s, "x")
	speed, err := strconv.ParseFloat(number, 64)
	if !times || err != nil || !(speed > 0 && speed <= 1e9) {
		return errors.New("want a factor above 0, as in 1x, 10x or 0.5x, or max")
	}
	r.cfg.Speed = speed
	return nil
}

// check refuses what can be refused before anything is sent.
func (r *replaying) check() error {
	sinks := 0
	for _, given := range []bool{r.exec != nil, r.file != "", r.target != ""} {
		if given {
			sinks++
		}
	}
	if sinks > 1 {
		return usagef("--exec, --out and --to-stream: messages go to one of them")
	}
	if r.producer != "" && r.target == "" {
		return usagef("--producer names who appends to the stream of --to-stream")
	}
	if r.file != "" && !strings.HasSuffix(r.file, ".jsonl") && !r.parquet() {
		return usagef("--out %s: want a name that ends in .jsonl or .parquet", r.file)
	}
	if r.target != "" {
		to, err := tier.ParseAddress(r.target)
		if err != nil {
			return err
		}
		if to == r.addr {
			return usagef("--to-stream %s is the stream that is replayed", to)
		}
	}
	if r.from.from().Ms > r.to.to().Ms {
		return r.behind()
	}
	return nil
}

func (r *replaying) behind() error {
	return usagef("--from %q is behind --to %q", r.from.text, r.to.text)
}

func (r *replaying) run(ctx context.Context, client *tier.Client) error {
	source, err := r.open(ctx, client)
	if err != nil {
		return err
	}
	switch {
	case r.dryRun:
		return r.count(ctx, source)
	case r.target != "":
		return r.forward(ctx, client, source)
	case r.parquet():
		return r.exportParquet(ctx, source)
	case r.file != "":
		return r.export(ctx, source)
	}
	return r.hand(ctx, source)
}

// open opens the stream, and finds the window.
func (r *replaying) open(ctx context.Context, client *tier.Client) (*past, error) {
	source, err := openPast(ctx, client, r.addr, r.store, &r.from, &r.to)
	if err != nil {
		return nil, err
	}
	r.cfg.From, r.cfg.To = r.from.from(), r.to.to()
	if r.cfg.From.Compare(r.cfg.To) > 0 {
		return nil, r.behind()
	}
	newest, err := source.newest(ctx)
	if err != nil {
		return nil, err
	}
	if newest.Compare(r.cfg.To) < 0 {
		r.cfg.To = newest // what comes meanwhile is no history yet, and a replay is to end
	}
	if r.cfg.From.Compare(r.cfg.To) > 0 {
		r.cfg.To = r.cfg.From // nothing, or the message there
	}
	return source, nil
}

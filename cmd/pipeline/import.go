package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// importing is the import command's flags.
type importing struct {
	app      *app
	file     string
	addr     tier.Address
	format   string
	producer string
	brand    codec.Brand
	pack     int
	compress bool
	rate     float64
}

func importCommand(a *app) *cobra.Command {
	i := &importing{app: a}
	cmd := &cobra.Command{
		Use:   "import FILE|- ADDR",
		Short: "Append the messages of a file that were written with their ids",
		Long: `Append the messages of a file to the stream ADDR, in their order, with type, key,
headers and data as they were. They get ids of this stream.

  jsonl    what 'pipeline replay --out' and 'pipeline range' write
  csv      the columns id and data, and perhaps type, key and headers (a JSON object)
  parquet  what 'pipeline replay --out' writes, or a segment of an archive

The ids say what was appended before: the same command, run again, goes on where
it was interrupted and appends nothing twice. They have to ascend, as those of one
stream do. A line that is none ends the import there; corrected, run it again.`,
		Example: `  pipeline replay shop/orders --out orders.jsonl
  pipeline import orders.jsonl test/orders`,
		Args: arguments(2, 2, "a file, and the address of a stream, as in orders.jsonl shop/orders"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault // a file
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			i.file = args[0]
			if i.addr, err = tier.ParseAddress(args[1]); err != nil {
				return err
			}
			if err := i.setFormat(); err != nil {
				return err
			}
			if err := checkCompress(i.compress, i.pack); err != nil {
				return err
			}
			return i.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.Var(choice(&i.format, input.MessageFormats...), "format", "of the file (default: by its name: .jsonl, .ndjson, .json, .csv, .parquet; of standard input jsonl)")
	f.Var(name(&i.producer, "producer"), "producer", "who has appended what: another name begins anew (default: made of the file's name and its first id)")
	f.Var(brand(&i.brand), "brand", "brand of the stream's ids (default: the stream's own, or made of its name)")
	f.Var(number(&i.pack, 1, codec.MaxPack), "pack", "put this many messages into each entry")
	f.BoolVar(&i.compress, "compress", false, "compress the packs of --pack by zstd")
	f.Var(perSecond(&i.rate), "rate", "messages per second at most")
	return cmd
}

func (i *importing) setFormat() error {
	if i.format == "parquet" && i.file == "-" {
		return usagef("Parquet is read from a file, not from standard input")
	}
	if i.format != "" {
		return nil
	}
	switch strings.ToLower(filepath.Ext(i.file)) {
	case ".jsonl", ".ndjson", ".json":
		i.format = "jsonl"
	case ".csv", ".parquet":
		i.format = strings.ToLower(filepath.Ext(i.file))[1:]
	default:
		if i.file != "-" {
			return usagef("%s: its name does not say what it holds: give --format", i.file)
		}
		i.format = "jsonl"
	}
	return nil
}

func (i *importing) run(ctx context.Context) error {
	p := produce{app: i.app, cfg: input.Config{File: i.file, Format: "messages"}}
	in, size, err := p.open()
	if err != nil {
		return err
	}
	defer in.Close()
	rows, err := input.NewMessages(in, i.file, i.format)
	if err != nil {
		return err
	}
	first, err := rows.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	i.app.logs = true
	return i.app.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		w, err := namedWriter(ctx, client, stream.WriterConfig{Address: i.addr.String(), Brand: i.brand, Pack: i.pack, Compression: compression(i.compress), Producer: i.producerName(first.ID)})
		if err != nil {
			return err
		}
		i.app.startProgress(size, "message")
		job := &importation{importing: i, writer: w, rows: rows, begun: time.Now()}
		err = job.run(ctx, first)
		i.app.endProgress()
		return errors.Join(err, job.report(err))
	})
}

func (i *importing) producerName(first codec.ID) string {
	if i.producer != "" {
		return i.producer
	}
	return producerOf("import", fmt.Sprintf("%s %s", filepath.Base(i.file), first))
}

// importation is one run of import.
type importation struct {
	*importing
	writer *stream.Writer
	rows   input.StoredReader
	begun  time.Time

	after    uint64 // position of the last message that is in the stream
	last     uint64 // and of the last that was taken
	batch    []codec.Message
	bytes    int
	appended int
	before   int // that the producer had appended
	foreign  int
}

const (
	importMessages = 500
	importBytes    = 1 << 20
)

func (i *importation) run(ctx context.Context, s input.Stored) (err error) {
	had, err := i.writer.Position(ctx)
	if err != nil {
		return err
	}
	i.after = had
	pace := pacer{rate: i.rate, begun: i.begun}
	for s.Line > 0 {
		if err := i.add(ctx, s, had, pace); err != nil {
			return err
		}
		s, err = i.rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(i.flush(ctx), fileErrorUnlessLine(i.file, err))
		}
	}
	return i.flush(ctx)
}

func fileErrorUnlessLine(file string, err error) error {
	if _, line := errors.AsType[*input.LineError](err); line {
		return err
	}
	return fileError(file, err)
}

func (i *importation) add(ctx context.Context, s input.Stored, had uint64, pace pacer) error {
	if s.ID.IsZero() {
		i.foreign++
		return nil
	}
	position := replay.PositionOf(s.ID.HostEntry())
	if position <= i.last {
		err := &input.LineError{File: i.file, Line: s.Line, Err: fmt.Errorf("the id %s is not above the one before it: the ids of one stream ascend", s.ID)}
		return errors.Join(i.flush(ctx), err)
	}
	if position <= had {
		i.last = position
		i.before++
		return nil
	}
	size := s.Message.Size()
	if n := len(i.batch); n > 0 && (n == i.most() || i.bytes+size > importBytes) {
		if err := i.flush(ctx); err != nil {
			return err
		}
		i.app.progress.Load().at(s.Offset, i.appended)
		if err := pace.wait(ctx, i.appended); err != nil {
			return err
		}
	}
	i.last = position
	i.batch, i.bytes = append(i.batch, s.Message), i.bytes+size
	return context.Cause(ctx)
}

// most is how many messages go at once: full packs, and no more than a rate allows in a twentieth of a second.
func (i *importation) most() int {
	n := importMessages
	if i.rate > 0 {
		n = max(1, min(n, int(math.Ceil(i.rate/20))))
	}
	if i.pack > 1 {
		n = max(1, n/i.pack) * i.pack
	}
	return n
}

func (i *importation) flush(ctx context.Context) error {
	if len(i.batch) == 0 {
		return nil
	}
	ctx, cancel := outlive(ctx, drainTimeout)
	defer cancel()
	if _, err := i.writer.AppendAfter(ctx, i.after, i.last, i.batch); err != nil {
		return err
	}
	i.after = i.last
	i.appended += len(i.batch)
	i.app.done = i.appended
	i.batch, i.bytes = make([]codec.Message, 0, len(i.batch)), 0
	return nil
}

func (i *importation) report(err error) error {
	took := time.Since(i.begun)
	if i.app.output == "json" {
		if err := i.app.printObject(struct {
			Appended int     `json:"appended"`
			Before   int     `json:"before"`
			Foreign  int     `json:"foreign"`
			Seconds  float64 `json:"seconds"`
		}{i.appended, i.before, i.foreign, took.Seconds()}); err != nil {
			return err
		}
	}
	if i.appended+i.before == 0 && err != nil && !stoppedWaiting(err) {
		return nil // err says why
	}
	i.app.note("%s appended to %s in %s, %s", show.Count(i.appended, "message"), i.addr, show.Duration(took), show.Rate(i.appended, took))
	if i.before > 0 {
		i.app.note("%s left out: appended by this command before; another --producer begins anew", show.Count(i.before, "message"))
	}
	if i.foreign > 0 {
		i.app.warn("%s left out: foreign or undecodable, they hold no message", show.Count(i.foreign, "line"))
	}
	return nil
}

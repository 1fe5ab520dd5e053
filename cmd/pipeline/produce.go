package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// produce is the command's flags.
type produce struct {
	app       *app
	addr      tier.Address
	cfg       input.Config
	brand     codec.Brand
	pack      int
	compress  bool
	rate      float64
	strict    bool
	window    time.Duration // of --dedup
	exclusive bool          // the stream's one writer
	metrics   metrics
	isPipe    bool // the input may pause
}

func produceCommand(a *app) *cobra.Command {
	p := &produce{app: a}
	cmd := &cobra.Command{
		Use:   "produce ADDR [FILE|-]",
		Short: "Append the lines, JSON values or CSV rows of a file to a stream",
		Long: `Append the lines, JSON values or CSV rows of a file, or of standard input, to
the stream ADDR, which is scope/stream. The stream is made when it does not
exist.

  lines  one message a line, as text
  json   one message for each JSON value; one value a line
  csv    one message a row: an object with the header line's columns as fields and
         the values as text

A line that does not parse is reported as FILE:LINE: REASON and left out, the
rest goes on, and the exit code is 1.`,
		Example: `  pipeline produce shop/orders orders.csv --key customer --time placed
  tail -f app.log | pipeline produce ops/log
  pipeline produce shop/orders big.jsonl --pack 100`,
		Args: arguments(1, 2, "the address of a stream, as in shop/orders, and perhaps a file"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault // a file
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(args); err != nil {
				return err
			}
			return p.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.Var(choice(&p.cfg.Format, input.Formats...), "format", "of the input (default: by the file's name: .csv, .json, .jsonl, .ndjson; else lines)")
	f.Var(word(&p.cfg.Type, "TYPE", codec.MaxType), "type", "type of the messages (default: the stream's name)")
	f.Var(word(&p.cfg.Key, "FIELD", codec.MaxKey), "key", "field that becomes the message's key (json, csv)")
	f.Var(word(&p.cfg.Time, "FIELD", codec.MaxKey), "time", "field that becomes the header event-time, in RFC 3339 (json, csv)")
	f.Var(brand(&p.brand), "brand", "brand of the stream's ids (default: the stream's own, or made of its name)")
	f.Var(number(&p.pack, 1, codec.MaxPack), "pack", "put this many messages into each entry: cheaper; groups handle and repeat them together")
	f.BoolVar(&p.compress, "compress", false, "compress the packs of --pack by zstd: a fraction of the bytes to send and to keep, for some work of readers")
	f.Var(perSecond(&p.rate), "rate", "messages per second at most")
	f.Var(word(&p.cfg.Dedup, "FIELD", codec.MaxKey), "dedup", "field whose value is appended once in a window, however often it comes (json, csv); one message at a time")
	p.window = 24 * time.Hour
	window := duration(&p.window)
	window.text = "24h"
	f.Var(window, "dedup-window", "how long a value of --dedup counts, by the server's clock")
	f.BoolVar(&p.exclusive, "exclusive", false, "be the one writer of the stream and mint its ids here, as the Elixir EchoMQ 3.0 does")
	f.BoolVar(&p.cfg.Keyed, "keyed", false, "make or write a keyed stream: the messages of each --key have versions, for 'range --key'")
	f.BoolVar(&p.strict, "strict", false, "stop at the first line that does not parse")
	p.metrics.flag(cmd)
	return cmd
}

// check refuses what can be refused before anything is opened.
func (p *produce) check(args []string) (err error) {
	if p.addr, err = tier.ParseAddress(args[0]); err != nil {
		return err
	}
	p.cfg.File = "-"
	if len(args) > 1 {
		p.cfg.File = args[1]
	}
	if p.cfg.Format == "" {
		p.cfg.Format = formatOf(p.cfg.File)
	}
	if p.cfg.Type == "" {
		p.cfg.Type = p.addr.Stream
	}
	if p.cfg.Format == "lines" && p.cfg.Key+p.cfg.Time+p.cfg.Dedup != "" {
		return usagef("--key, --time and --dedup name fields, and lines have none: give --format json or csv")
	}
	if p.cfg.Dedup != "" && (p.exclusive || p.pack > 1) {
		return usagef("--dedup appends one message at a time, by a record that the server keeps: leave --pack and --exclusive out")
	}
	if p.window < stream.MinWindow || p.window > stream.MaxWindow {
		return usagef("--dedup-window: want up to 366d")
	}
	if p.cfg.Keyed && (p.cfg.Key == "" || p.exclusive || p.pack > 1 || p.cfg.Dedup != "") {
		return usagef("--keyed needs --key, the field that becomes the key, and --pack, --exclusive and --dedup do not go with it")
	}
	if p.exclusive && p.pack > 1 {
		return usagef("--pack does not go with --exclusive, whose wire has no packs")
	}
	return checkCompress(p.compress, p.pack)
}

func checkCompress(compress bool, pack int) error {
	if compress && pack < 2 {
		return usagef("--compress compresses packs: give --pack too, 100 for instance")
	}
	return nil
}

// compression is what --compress says.
func compression(compress bool) codec.Compression {
	if compress {
		return codec.Zstd
	}
	return codec.NoCompression
}

func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv":
		return "csv"
	case ".json", ".jsonl", ".ndjson":
		return "json"
	}
	return "lines"
}

func (p *produce) run(ctx context.Context) error {
	in, size, err := p.open()
	if err != nil {
		return err
	}
	defer in.Close()
	p.isPipe = size < 0
	rows, err := input.New(in, p.cfg)
	if err != nil {
		return err
	}
	p.checkColumns(rows)
	stop, err := p.metrics.serve(ctx, p.app)
	if err != nil {
		return err
	}
	defer stop()
	p.app.logs = true
	return p.app.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		cfg := stream.WriterConfig{Address: p.addr.String(), Brand: p.brand, Pack: p.pack, Compression: compression(p.compress), Keyed: p.cfg.Keyed, Registerer: p.metrics.registerer()}
		release, err := p.mint(ctx, client, &cfg)
		if err != nil {
			return err
		}
		defer release()
		w, err := p.appender(ctx, client, cfg)
		if err != nil {
			return err
		}
		p.app.startProgress(size, "message")
		job := &production{produce: p, writer: w, rows: rows}
		return job.run(ctx)
	})
}

// checkColumns warns of a file whose columns something else than a comma separates.
func (p *produce) checkColumns(rows input.Reader) {
	table, ok := rows.(interface{ Columns() []string })
	if !ok || len(table.Columns()) != 1 {
		return
	}
	for mark, called := range map[string]string{";": "a semicolon", "\t": "a tab"} {
		if strings.Contains(table.Columns()[0], mark) {
			p.app.warn("%s: one column, with %s in its name: values are separated by commas here, convert the file if it uses another mark", p.cfg.File, called)
			return
		}
	}
}

// open opens the input; its size is -1 when nobody knows.
func (p *produce) open() (io.ReadCloser, int64, error) {
	if p.cfg.File == "-" {
		p.cfg.File = "stdin"
		if isTerminal(p.app.in) {
			p.app.note("reading %s from the terminal; Ctrl-D ends them", p.cfg.Format)
		}
		return p.app.in, -1, nil
	}
	f, err := os.Open(p.cfg.File)
	if err != nil {
		return nil, 0, fileError(p.cfg.File, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a directory: give the files in it one by one")
	}
	if err != nil {
		f.Close()
		return nil, 0, fileError(p.cfg.File, err)
	}
	if !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// perBatch is how many messages go to the server at once: full packs, and no more
// than a rate allows in a twentieth of a second.
func (p *produce) perBatch() int {
	const most = 500
	n := most
	if p.rate > 0 {
		n = max(1, min(n, int(math.Ceil(p.rate/20))))
	}
	if p.pack > 1 {
		n = max(1, n/p.pack) * p.pack
	}
	return n
}

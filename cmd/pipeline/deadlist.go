package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/internal/jsontext"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// tableRows is how many letters a table has at most, unless --limit says otherwise: all are in memory.
const tableRows = 1000

func deadList(a *app) *cobra.Command {
	d := &dead{confirm: confirm{app: a}}
	cmd := d.flagged(&cobra.Command{
		Use:   "ls ADDR --group NAME",
		Short: "List what a group or cursor has given up, and why",
		Long: `List the dead letters of a group or a cursor, oldest first: the letter's id, by which the
other commands take it, the message's, its type and key, how often it was tried, how
long ago it was given up, and why, cut to the terminal's width. JSON has the message
and the whole reason. The table ends after 1,000, unless --limit says otherwise.`,
		Example: `  pipeline dead ls shop/orders --group mailer
  pipeline dead ls shop/orders --group mailer --match timeout --limit 10`,
	}, d.list, func() error { return nil })
	d.choosing(cmd)
	return cmd
}

func deadShow(a *app) *cobra.Command {
	d := &dead{confirm: confirm{app: a}}
	return d.flagged(&cobra.Command{
		Use:   "show ADDR --group NAME --id ID",
		Short: "Show one dead letter whole",
		Long: `Show a dead letter whole: its reason, and the message as 'pipeline get' shows it.
The message is there even when it was trimmed from the stream.`,
		Example: `  pipeline dead show shop/orders --group mailer --id 1795957200000-0`,
	}, d.show, func() error {
		if len(d.ids) == 0 {
			return usagef("want the id of a dead letter: --id ID ('pipeline dead ls %s --group %s' lists them)", d.addr, d.group)
		}
		return nil
	})
}

// appendLetter appends a letter as one JSON object, without a line end.
func appendLetter(dst []byte, l *stream.DeadLetter) []byte {
	dst = append(dst, `{"letter":"`...)
	dst = append(dst, l.ID.String()...)
	dst = append(dst, `","time":"`...)
	dst = append(dst, show.Time(l.ID.Time())...)
	dst = append(dst, `","attempts":`...)
	dst = strconv.AppendInt(dst, int64(l.Attempts), 10)
	dst = append(dst, `,"reason":`...)
	dst = jsontext.AppendString(dst, l.Reason)
	dst = append(dst, `,"message":`...)
	return append(show.AppendJSON(dst, &l.Record), '}')
}

// printLetters writes letters as JSON lines, or as a person reads one.
func (d *dead) printLetters(ctx context.Context, client *tier.Client, text func(*stream.DeadLetter) string) error {
	out := bufio.NewWriterSize(d.app.out, 64<<10)
	var line []byte
	err := d.each(ctx, client, func(l *stream.DeadLetter) error {
		if d.app.json() {
			line = append(appendLetter(line[:0], l), '\n')
		} else {
			line = append(line[:0], text(l)...)
		}
		_, err := out.Write(line)
		d.app.done++
		return outputError(err)
	})
	return errors.Join(err, outputError(out.Flush()))
}

func (d *dead) show(ctx context.Context, client *tier.Client) error {
	first := true
	return d.printLetters(ctx, client, func(l *stream.DeadLetter) string {
		head := ""
		if !first {
			head = "\n"
		}
		first = false
		for _, part := range [][2]string{
			{"letter", l.ID.String()}, {"dead", show.Time(l.ID.Time())}, {"attempts", strconv.Itoa(l.Attempts)}, {"reason", l.Reason},
		} {
			head += fmt.Sprintf("%-9s%s\n", part[0], show.Printable(part[1]))
		}
		return head + show.Detail(&l.Record)
	})
}

func (d *dead) list(ctx context.Context, client *tier.Client) error {
	if d.app.json() {
		return d.printLetters(ctx, client, nil)
	}
	now, err := client.Now(ctx, d.addr.LogKey())
	if err != nil {
		return err
	}
	bound := d.limit == 0
	if bound {
		d.limit = tableRows
	}
	rows := [][]string{{"LETTER", "MESSAGE", "TYPE", "KEY", ">ATTEMPTS", ">AGE", "REASON"}}
	err = d.each(ctx, client, func(l *stream.DeadLetter) error {
		rows = append(rows, letterRow(l, now))
		d.app.done++
		return nil
	})
	if err != nil || len(rows) == 1 {
		return err
	}
	fit(rows, d.app.width())
	if err := d.app.print(show.Table(rows)); err != nil {
		return err
	}
	if bound && len(rows) > tableRows {
		d.app.note("these are the first %d: --limit N, --match TEXT or --output json shows others", tableRows)
	}
	return nil
}

func letterRow(l *stream.DeadLetter, now time.Time) []string {
	const widest = 24
	id, kind := l.Record.ID.String(), l.Record.Type
	if l.Record.Foreign() {
		id, kind = l.Record.Position.String(), "(foreign)"
	}
	if l.Record.Err != nil {
		kind = "(undecodable)"
	}
	return []string{
		l.ID.String(), id, show.Clip(show.Printable(kind), widest), show.Clip(show.Printable(l.Record.Key), widest), strconv.Itoa(l.Attempts),
		show.Duration(max(0, now.Sub(l.ID.Time()))), show.Printable(l.Reason),
	}
}

// fit cuts the last column so that the table is as wide as the terminal; 0 is any width.
func fit(rows [][]string, width int) {
	if width == 0 {
		return
	}
	last := len(rows[0]) - 1
	for i := range last {
		widest := 0
		for _, row := range rows {
			widest = max(widest, show.Width(row[i]))
		}
		width -= widest + 2
	}
	for _, row := range rows[1:] {
		row[last] = show.Clip(row[last], max(width, 16))
	}
}

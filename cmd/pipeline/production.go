package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// production is one run of produce: rows become batches, each of which is written
// as a whole or not at all.
type production struct {
	*produce
	writer appender
	rows   input.Reader

	begun       time.Time
	written     int
	refused     int // lines
	first, last codec.ID
	unknown     int // messages whose batch may or may not have been written
	scratch     []byte
	keys        []string // of the messages of a batch, with --dedup
	duplicates  int
}

// read is a row or an error of the input.
type read struct {
	row input.Row
	err error
}

// linger is how long a batch waits for the next row of a pipe: what comes line by
// line is sent at once. What comes from a file makes full batches.
const linger = 10 * time.Millisecond

// slowAfter is how long a person is left without a word.
const slowAfter = 2 * time.Second

// drainTimeout is how long a batch that is on its way is waited for after an
// interrupt.
const drainTimeout = 10 * time.Second

func (p *production) run(ctx context.Context) error {
	p.begun = time.Now()
	reads := make(chan read, 4096)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // the pump ends with it, or with its next line
	go p.pump(ctx, reads)
	err := p.batches(ctx, reads)
	p.app.endProgress()
	return errors.Join(err, p.report(err))
}

// pump reads on a goroutine of its own: standard input cannot be interrupted.
func (p *production) pump(ctx context.Context, reads chan<- read) {
	for {
		row, err := p.rows.Next()
		select {
		case reads <- read{row, err}:
		case <-ctx.Done():
			return
		}
		var line *input.LineError
		if err != nil && !errors.As(err, &line) {
			return
		}
	}
}

// batches writes until the input ends, or ctx.
func (p *production) batches(ctx context.Context, reads <-chan read) error {
	pace := pacer{rate: p.rate, begun: p.begun}
	for {
		batch, offset, stop := p.collect(ctx, reads)
		if err := p.write(ctx, batch); err != nil {
			return err
		}
		p.app.progress.Load().at(offset, p.written)
		switch {
		case errors.Is(stop, io.EOF):
			return nil
		case stop != nil:
			return stop
		}
		if err := pace.wait(ctx, p.written); err != nil {
			return err
		}
	}
}

// collect takes rows until the batch is full, or until none comes for a moment.
// Stop says why there will be no more.
func (p *production) collect(ctx context.Context, reads <-chan read) (batch []codec.Message, offset int64, stop error) {
	limit, bytes := p.perBatch(), 0
	batch, p.keys = make([]codec.Message, 0, limit), p.keys[:0]
	var late <-chan time.Time // nil while the batch is empty, and of a file
	for len(batch) < limit && bytes < maxBatchBytes {
		var r read
		select {
		case r = <-reads:
		case <-late:
			return batch, offset, nil
		case <-ctx.Done():
			return batch, offset, context.Cause(ctx)
		}
		offset = r.row.Offset
		size := 0
		if r.err == nil {
			size, r.err = p.size(r.row)
		}
		switch err := p.refuse(r.err); {
		case err != nil:
			return batch, offset, err
		case r.err != nil:
			continue
		}
		bytes += size
		batch, p.keys = append(batch, r.row.Message), append(p.keys, r.row.Dedup)
		if late == nil && p.isPipe {
			timer := time.NewTimer(linger)
			defer timer.Stop()
			late = timer.C
		}
	}
	return batch, offset, nil
}

const maxBatchBytes = 4 << 20

// size is the length of the message on the wire, or why its line is refused.
func (p *production) size(row input.Row) (int, error) {
	const most = stream.DefaultMaxMessage
	var err error
	p.scratch, err = codec.AppendMessage(p.scratch[:0], &row.Message)
	if err == nil && len(p.scratch) > most {
		err = fmt.Errorf("a message of %s bytes, at most %s fit", show.Number(int64(len(p.scratch))), show.Number(most))
	}
	if err != nil {
		return 0, &input.LineError{File: p.cfg.File, Line: row.Line, Err: err}
	}
	return len(p.scratch), nil
}

// refuse reports an error of one line and returns nil, so that the rest goes on;
// with --strict, and for other errors, it returns what ends the command.
func (p *production) refuse(err error) error {
	var line *input.LineError
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case !errors.As(err, &line):
		return fileError(p.cfg.File, err)
	}
	p.refused++
	if p.strict {
		return err
	}
	p.app.progress.Load().clear()
	fmt.Fprintln(p.app.err, show.Printable(oneLine(err)))
	return nil
}

// write writes one batch, in an interrupted run too: then its outcome is waited
// for, within bounds.
func (p *production) write(ctx context.Context, batch []codec.Message) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := outlive(ctx, drainTimeout)
	defer cancel()
	p.app.trouble.Store(nil)
	slow := time.AfterFunc(slowAfter, func() {
		p.app.warn("%s: trying for half a minute in all; Ctrl-C stops", p.app.lasting())
	})
	defer slow.Stop()
	if p.cfg.Dedup != "" {
		return p.writeOnce(ctx, batch)
	}
	ids, err := p.writer.AppendBatch(ctx, batch)
	return p.wrote(ids, len(batch), err)
}

// writeOnce writes one message after another, unless its key was seen.
func (p *production) writeOnce(ctx context.Context, batch []codec.Message) error {
	for i := range batch {
		id, fresh, err := p.writer.(*stream.Writer).AppendOnce(ctx, p.keys[i], p.window, batch[i])
		if err == nil && !fresh {
			p.duplicates++
			continue
		}
		if err := p.wrote([]codec.ID{id}, 1, err); err != nil {
			return err
		}
	}
	return nil
}

// wrote counts what was written, or of n messages that it may have been.
func (p *production) wrote(ids []codec.ID, n int, err error) error {
	if err != nil {
		ids = slices.DeleteFunc(ids, codec.ID.IsZero) // what some partitions took
		if tier.OutcomeUnknown(err) {
			p.unknown = n - len(ids)
		}
		if len(ids) == 0 {
			return err
		}
	}
	if p.written == 0 {
		p.first = ids[0]
	}
	p.last = ids[len(ids)-1]
	p.written += len(ids)
	p.app.done = p.written
	return err
}

// outlive returns a context that ends d after ctx.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// report says what was written, and returns an error when that is not all.
func (p *production) report(err error) error {
	took := time.Since(p.begun)
	if p.app.output == "json" {
		if err := p.reportJSON(took); err != nil {
			return err
		}
	}
	ids := ""
	if p.written > 0 {
		ids = fmt.Sprintf("; %s to %s", p.first, p.last)
	}
	if p.written == 0 && err != nil && !stoppedWaiting(err) {
		return nil // err says why
	}
	p.app.note("%s written to %s in %s, %s%s", show.Count(p.written, "message"), p.addr, show.Duration(took), show.Rate(p.written, took), ids)
	if p.duplicates > 0 {
		p.app.note("%s left out: seen within %s before", show.Count(p.duplicates, "message"), p.window)
	}
	if p.unknown > 0 {
		p.app.warn("%d more were sent and not answered for: look at the end of the stream with 'pipeline tail %s' before producing them again", p.unknown, p.addr)
	}
	if p.refused > 0 && err == nil {
		return fmt.Errorf("%s left out: correct and produce what is missing", show.Count(p.refused, "line"))
	}
	return nil
}

func (p *production) reportJSON(took time.Duration) error {
	return p.app.printObject(struct {
		Written    int      `json:"written"`
		Refused    int      `json:"refused"`
		Unknown    int      `json:"unknown"`
		Duplicates int      `json:"duplicates,omitempty"`
		First      codec.ID `json:"first"`
		Last       codec.ID `json:"last"`
		Seconds    float64  `json:"seconds"`
	}{p.written, p.refused, p.unknown, p.duplicates, p.first, p.last, took.Seconds()})
}

// pacer keeps to a rate.
type pacer struct {
	rate  float64
	begun time.Time
}

// wait waits until the rate allows more than sent messages.
func (p pacer) wait(ctx context.Context, sent int) error {
	if p.rate == 0 {
		return nil
	}
	due := p.begun.Add(time.Duration(float64(sent) / p.rate * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

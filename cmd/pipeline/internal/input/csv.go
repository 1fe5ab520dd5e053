package input

import (
	"errors"
	"io"
	"slices"

	"github.com/echomq/pipeline/internal/jsontext"
	"github.com/echomq/pipeline/internal/rows"
)

// csvReader makes one message of each row: an object with the columns of the
// header line as fields, in their order, and the values as text. Blank lines are
// skipped.
type csvReader struct {
	cfg   Config
	table *rows.Table
}

func newCSV(cfg Config, lines *rows.Lines) (Reader, error) {
	table, err := rows.NewTable(lines)
	if errors.Is(err, io.EOF) {
		return emptyReader{}, nil
	}
	if err != nil {
		return nil, cfg.headerError(err)
	}
	r := &csvReader{cfg, table}
	return r, errors.Join(r.checkField("key", cfg.Key), r.checkField("time", cfg.Time), r.checkField("dedup", cfg.Dedup))
}

// headerError is about a line, if it is about the header line.
func (c *Config) headerError(err error) error {
	if header, is := errors.AsType[*rows.HeaderError](err); is {
		return c.lineError(header.Line, header)
	}
	return err
}

// Columns are those of the header line.
func (r *csvReader) Columns() []string { return r.table.Columns }

// emptyReader is of a file without even a header line.
type emptyReader struct{}

func (emptyReader) Next() (Row, error) { return Row{}, io.EOF }

func (r *csvReader) checkField(flag, field string) error {
	if field == "" || slices.Contains(r.table.Columns, field) {
		return nil
	}
	return &FieldError{Flag: flag, Field: field, Columns: r.table.Columns}
}

func (r *csvReader) Next() (Row, error) {
	in, err := r.table.Next()
	if err != nil {
		return Row{}, err
	}
	row := Row{Line: in.Number, Offset: in.Offset}
	if err = in.Err; err == nil {
		err = r.fill(&row, in.Values)
	}
	if err != nil {
		return row, r.cfg.lineError(in.Number, err)
	}
	return row, nil
}

func (r *csvReader) fill(row *Row, values []string) error {
	data, err := r.table.Object(values, jsontext.AppendString)
	if err != nil {
		return err
	}
	return r.cfg.fill(row, data, func(name string) (string, error) {
		return values[slices.Index(r.table.Columns, name)], nil
	})
}

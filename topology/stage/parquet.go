package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/jsontext"
)

// columns reads Parquet: each row is an object with the names of the columns, and the values as they are stored.
type columns struct {
	rows *parquet.GenericReader[any]
	row  [1]any
}

// newColumns reads the end of a file, which says where its columns are.
func newColumns(file *os.File) (c *columns, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	opened, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s is no Parquet: %w", file.Name(), err)
	}
	return &columns{rows: parquet.NewGenericReader[any](opened)}, nil
}

// checkText refuses bytes that are no text, which JSON cannot hold.
func checkText(v any) error {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return jsontext.ErrUTF8
		}
	case []any:
		for _, one := range v {
			if err := checkText(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, one := range v {
			if err := checkText(one); err != nil {
				return fmt.Errorf("column %q: %w", name, err)
			}
		}
	}
	return nil
}

func (c *columns) next() (m codec.Message, err error) {
	defer func() {
		if v := recover(); v != nil { // of a file whose pages are not what its end says
			err = fmt.Errorf("stage: a row of Parquet: %v", v)
		}
	}()
	c.row[0] = nil
	n, err := c.rows.Read(c.row[:])
	if n == 0 {
		if err == nil {
			err = io.ErrNoProgress
		}
		return m, err
	}
	if err != nil && !errors.Is(err, io.EOF) { // which is told again
		return m, err
	}
	if err = checkText(c.row[0]); err != nil {
		return m, errRecord{err}
	}
	data, err := json.Marshal(c.row[0])
	if err != nil { // it has a number that is none
		return m, errRecord{err}
	}
	return codec.Message{Headers: contentJSON, Data: data}, nil
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
)

// export is a file that messages are written to, one JSON object a line.
type export struct {
	file *os.File
	out  *bufio.Writer
	buf  []byte
}

// exported is what tells the last message of a file.
type exported struct {
	ID    codec.ID       `json:"id"`
	Entry codec.Position `json:"entry"`
}

// errNotExported says that a file is none that messages were exported to.
var errNotExported = errors.New("it is there, and holds something else than messages with their ids: give another name")

// openExport opens a file to write behind the messages that it has; last is nil when it has none. A line that was not written
// to its end is cut off.
func openExport(name string) (e *export, last *exported, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, fileError(name, err)
	}
	line, end, err := lastMessage(f)
	if err == nil && end > 0 {
		last = &exported{}
		if json.Unmarshal(line, last) != nil || last.ID.IsZero() && last.Entry.Entry.IsZero() {
			err = usagef("--out %s: %w", name, errNotExported)
		}
	}
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, 0)
	}
	if err != nil {
		f.Close()
		if _, usage := errors.AsType[*usageError](err); !usage {
			err = fileError(name, err)
		}
		return nil, nil, err
	}
	return &export{file: f, out: bufio.NewWriterSize(f, 256<<10)}, last, nil
}

// lastMessage is the last line that has an end, and where that is. What follows it has to be the beginning of a message.
func lastMessage(f *os.File) (line []byte, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("is no file that could be gone on with")
	}
	begin, ends := info.Size(), 0
	for begin > 0 && ends < 2 {
		step := min(begin, int64(len(line))+64<<10)
		begin -= step
		more := make([]byte, step, int(step)+len(line))
		if _, err := f.ReadAt(more, begin); err != nil {
			return nil, 0, err
		}
		line = append(more, line...)
		ends = bytes.Count(line, []byte{'\n'})
	}
	stop := bytes.LastIndexByte(line, '\n') + 1
	if torn, want := line[stop:], []byte(`{"id":"`); !bytes.HasPrefix(torn, want[:min(len(torn), len(want))]) {
		return nil, 0, usagef("--out %s: %w", f.Name(), errNotExported)
	}
	if stop == 0 {
		return nil, 0, nil
	}
	return line[bytes.LastIndexByte(line[:stop-1], '\n')+1 : stop], begin + int64(stop), nil
}

// address is where the message stands in the stream.
func (e *exported) address(ctx context.Context, source *past) (codec.EntryID, error) {
	if e.ID.IsZero() {
		return e.Entry.Entry, nil // of an entry that is foreign, and is no pack
	}
	identity, err := source.Identity(ctx)
	if err != nil {
		return codec.EntryID{}, err
	}
	if at, ok := identity.Entry(e.ID); ok {
		return at, nil
	}
	if e.ID.Brand() != identity.Brand {
		return codec.EntryID{}, usagef("its last message, %s, is not of %s, whose ids begin with %s", e.ID, source.addr, identity.Brand)
	}
	return e.Entry.Entry, nil // an id that its writer has minted: of a plain entry, or the last of a pack
}

// put writes a message. It may stay in memory until close.
func (e *export) put(r *codec.Record) (err error) {
	if e.buf, err = show.AppendExact(e.buf[:0], r); err != nil {
		return fmt.Errorf("%s: %w", r.Position, err)
	}
	if _, err := e.out.Write(append(e.buf, '\n')); err != nil {
		return fileError(e.file.Name(), err)
	}
	return nil
}

// close writes what is in memory. Again, it does nothing.
func (e *export) close() error {
	if e.file == nil {
		return nil
	}
	f := e.file
	e.file = nil
	if err := errors.Join(e.out.Flush(), f.Close()); err != nil {
		return fileError(f.Name(), err)
	}
	return nil
}

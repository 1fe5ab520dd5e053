package archive

import (
	"context"
	"errors"
	"io"
)

// Store keeps objects that are written once. Names are paths of letters, digits and "._=-/".
//
// A file system is one (Directory), and so is what speaks S3 (package s3). Another needs these four methods, and an atomic
// Create.
type Store interface {
	// Create makes an object of the whole body, which is not empty, unless there is one of that name: then the error wraps ErrExists, and the
	// object is as it was. Of two at once, from any machines, one makes it. A reader sees all of it or none. After another
	// error it may be there.
	Create(ctx context.Context, name string, body io.ReaderAt, size int64) error
	// ReadAt fills p from a place of an object, as io.ReaderAt does. ErrAbsent.
	ReadAt(ctx context.Context, name string, p []byte, at int64) (int, error)
	// List lists the objects whose names begin with a prefix, by name.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Delete deletes an object. That there is none is no error.
	Delete(ctx context.Context, name string) error
}

// Object is what a store lists.
type Object struct {
	Name  string
	Bytes int64
}

// Of a store.
var (
	// ErrExists: there is an object of that name.
	ErrExists = errors.New("archive: the object exists")
	// ErrAbsent: there is no object of that name.
	ErrAbsent = errors.New("archive: no such object")
	// ErrStore: an address that names no store of this kind.
	ErrStore = errors.New("archive: not the address of a store")
)

// object is one of a store, to be read.
type object struct {
	ctx   context.Context // of the loop that reads it
	store Store
	name  string
}

// ReadAt implements io.ReaderAt. What is wrong with the object is told apart from what is wrong with the store, a *storeError.
func (o object) ReadAt(p []byte, at int64) (int, error) {
	n, err := o.store.ReadAt(o.ctx, o.name, p, at)
	if err != nil && !errors.Is(err, ErrAbsent) && !errors.Is(err, io.EOF) {
		err = &storeError{o.name, err}
	}
	return n, err
}

// storeError says that a store could not be asked.
type storeError struct {
	name string
	err  error
}

func (e *storeError) Error() string { return "archive: " + e.name + ": " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

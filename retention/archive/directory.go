package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Directory is a store in a file system. Of two that create an object at once, on one machine or on several that share the
// file system, one does: it is written beside its place, and then linked there, which fails where there is a file.
type Directory struct {
	root string
	sync func(directory string) error
}

// OpenDirectory opens the store at "file:///path". Nothing is made before the first object is. ErrStore.
func OpenDirectory(address string) (*Directory, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "file" || u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: want file:///path", ErrStore)
	}
	return &Directory{filepath.Clean(u.Path), syncDirectory}, nil
}

// parts end the names of files that are being written.
const parts = ".part"

func (d *Directory) path(name string) (string, error) {
	if !filepath.IsLocal(name) || strings.HasSuffix(name, parts) {
		return "", fmt.Errorf("archive: %q is no name of an object", name)
	}
	return filepath.Join(d.root, name), nil
}

// Create implements Store. The object is on the disk when it returns.
func (d *Directory) Create(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return d.exists(name, path)
	}
	if err := d.makeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+parts)
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = io.Copy(part, io.NewSectionReader(body, 0, size))
	err = cmp.Or(err, ctx.Err(), part.Chmod(0o644), part.Sync())
	if err = cmp.Or(err, part.Close()); err != nil {
		return err
	}
	if err := os.Link(part.Name(), path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return d.exists(name, path)
		}
		return err
	}
	return d.sync(filepath.Dir(path))
}

// exists is the error of an object that there is: on the disk, too, though who made it may have died before it was.
func (d *Directory) exists(name, path string) error {
	return cmp.Or(d.sync(filepath.Dir(path)), fmt.Errorf("%w: %s", ErrExists, name))
}

// makeDirectory makes a directory and those above it that there are not, each on the disk.
func (d *Directory) makeDirectory(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	if err := d.makeDirectory(above); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.sync(above)
}

// syncDirectory brings what a directory lists to the disk.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// ReadAt implements Store.
func (d *Directory) ReadAt(_ context.Context, name string, p []byte, at int64) (int, error) {
	path, err := d.path(name)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: %s", ErrAbsent, name)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, at)
}

// List implements Store.
func (d *Directory) List(ctx context.Context, prefix string) ([]Object, error) {
	root, err := d.path(path.Dir(prefix + "x"))
	if err != nil {
		return nil, err
	}
	var list []Object
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // also one that went meanwhile
			return nil
		}
		if err != nil || entry.IsDir() {
			return cmp.Or(err, ctx.Err())
		}
		name, err := filepath.Rel(d.root, path)
		if name = filepath.ToSlash(name); err != nil || strings.HasSuffix(name, parts) || !strings.HasPrefix(name, prefix) {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			list = append(list, Object{name, info.Size()})
		}
		return err
	})
	slices.SortFunc(list, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	return list, err
}

// Delete implements Store.
func (d *Directory) Delete(_ context.Context, name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package archive

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Memory is a store in the memory of this process, for tests. The zero value is empty. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// Create implements Store.
func (m *Memory) Create(_ context.Context, name string, body io.ReaderAt, size int64) error {
	data, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[name]; ok {
		return fmt.Errorf("%w: %s", ErrExists, name)
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[name] = data
	return nil
}

// ReadAt implements Store.
func (m *Memory) ReadAt(_ context.Context, name string, p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.objects[name]
	if !ok {
		return 0, fmt.Errorf("%w: %s", ErrAbsent, name)
	}
	return strings.NewReader(stringOf(data)).ReadAt(p, at)
}

// List implements Store.
func (m *Memory) List(_ context.Context, prefix string) ([]Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Object
	for name, data := range m.objects {
		if strings.HasPrefix(name, prefix) {
			list = append(list, Object{name, int64(len(data))})
		}
	}
	slices.SortFunc(list, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

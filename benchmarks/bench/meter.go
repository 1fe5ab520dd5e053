package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Cost is what some work took: of CPU time of the server and of this process, which a busy machine blurs less than elapsed
// time, and of allocations of this process.
type Cost struct {
	Server, Client, Elapsed time.Duration
	Allocs, Bytes           uint64
}

// Meter measures against the server of one key, or the servers of several, over connections of its own.
type Meter struct {
	wire *wire   // to the server of the first key
	all  []*wire // that one, too
}

// NewMeter connects; each key is of another server. The caller closes it.
func NewMeter(ctx context.Context, client *tier.Client, keys ...string) (*Meter, error) {
	m := &Meter{}
	for _, key := range keys {
		w, err := dial(ctx, client, key)
		if err != nil {
			m.Close()
			return nil, err
		}
		m.all = append(m.all, w)
	}
	m.wire = m.all[0]
	return m, nil
}

// Close ends the connections.
func (m *Meter) Close() {
	for _, w := range m.all {
		w.Close()
	}
}

// Measure does work and tells what it took. All that this process and the server do meanwhile counts.
func (m *Meter) Measure(ctx context.Context, work func(context.Context) error) (c Cost, err error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	server, err := m.serverCPU(ctx)
	if err != nil {
		return c, err
	}
	client, begun := clientCPU(), time.Now()
	if err := work(ctx); err != nil {
		return c, err
	}
	c.Elapsed, c.Client = time.Since(begun), clientCPU()-client
	used, err := m.serverCPU(ctx)
	c.Server = used - server
	runtime.ReadMemStats(&after)
	c.Allocs, c.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return c, err
}

// serverCPU is what the servers have used so far, all their threads.
func (m *Meter) serverCPU(ctx context.Context) (total time.Duration, err error) {
	for _, w := range m.all {
		used, err := w.serverCPU(ctx)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

func (w *wire) serverCPU(ctx context.Context) (total time.Duration, err error) {
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := w.info(ctx, "cpu", name)
		if err != nil {
			return 0, err
		}
		total += time.Duration(s * float64(time.Second))
	}
	return total, nil
}

// used is all memory that the first server has in use.
func (m *Meter) used(ctx context.Context) (int64, error) {
	n, err := m.wire.info(ctx, "memory", "used_memory")
	return int64(n), err
}

// info is a number of a section of INFO.
func (w *wire) info(ctx context.Context, section, name string) (float64, error) {
	reply, err := w.ask(ctx, "INFO", section)
	if err != nil {
		return 0, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("bench: INFO: %s: %w", name, err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("bench: INFO %s does not say %s: %.100q", section, name, text)
}

// stored is the memory that keys take at the server, all of their nodes counted.
func (m *Meter) stored(ctx context.Context, keys []string) (total int64, err error) {
	for _, key := range keys {
		reply, err := m.wire.ask(ctx, "MEMORY", "USAGE", key, "SAMPLES", "0")
		if err != nil {
			return 0, err
		}
		n, _ := reply.(int64) // of a key that does not exist nil
		total += n
	}
	return total, nil
}

// durability is what the server is set to keep, in the words of its configuration, as far as the user may ask.
func (m *Meter) durability(ctx context.Context) (string, error) {
	reply, err := m.wire.ask(ctx, "CONFIG", "GET", "append*", "save")
	if _, refused := asRefusal(err); refused {
		return "not known: the user may not ask", nil
	}
	if err != nil {
		return "", err
	}
	set := map[string]string{}
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		set[name], _ = list[i+1].(string)
	}
	return fmt.Sprintf("appendonly %s, appendfsync %s, save %q", set["appendonly"], set["appendfsync"], set["save"]), nil
}

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

// Meter measures against the server of one key, over a connection of its own.
type Meter struct{ wire *wire }

// NewMeter connects. The caller closes it.
func NewMeter(ctx context.Context, client *tier.Client, key string) (*Meter, error) {
	w, err := dial(ctx, client, key)
	if err != nil {
		return nil, err
	}
	return &Meter{w}, nil
}

// Close ends the connection.
func (m *Meter) Close() { m.wire.close() }

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

// serverCPU is what the server has used so far, all its threads.
func (m *Meter) serverCPU(ctx context.Context) (total time.Duration, err error) {
	reply, err := m.wire.ask(ctx, "INFO", "cpu")
	if err != nil {
		return 0, err
	}
	text, _ := reply.(string)
	found := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		s, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("bench: INFO: %s: %w", name, err)
		}
		total += time.Duration(s * float64(time.Second))
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("bench: INFO cpu does not say what the server has used: %.100q", text)
	}
	return total, nil
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

package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errExited says that a server ended before it was ready.
var errExited = errors.New("the server exited")

// readyPoll is short against the 25 ms that a server takes to start.
const readyPoll = 5 * time.Millisecond

// ready waits until the server at e answers and has loaded its data, makes the
// cluster complete if asked, and returns the server's version. It gives up when
// ctx ends or exited is closed.
func ready(ctx context.Context, e endpoint, exited <-chan struct{}, cluster bool) (version string, err error) {
	steps := []func() error{
		func() error { _, err := e.call(ctx, "PING"); return err },
		func() (err error) { version, err = serverVersion(ctx, e); return err },
	}
	if cluster {
		steps = append(steps, func() error { return clusterOK(ctx, e) })
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if err = firstError(steps); err == nil {
			return version, nil
		}
		select {
		case <-tick.C:
		case <-exited:
			return "", errExited
		case <-ctx.Done():
			return "", fmt.Errorf("not ready: %w (%w)", err, ctx.Err())
		}
	}
}

func firstError(steps []func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// clusterOK gives all slots to the node, which a restarted one has already, and
// fails until the node finds its cluster complete.
func clusterOK(ctx context.Context, e endpoint) error {
	info, err := e.call(ctx, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	switch {
	case field(info, "cluster_state") == "ok":
		return nil
	case field(info, "cluster_slots_assigned") == "0":
		_, err = e.call(ctx, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		if err != nil {
			return err
		}
	}
	return errors.New("cluster_state is not ok")
}

func serverVersion(ctx context.Context, e endpoint) (string, error) {
	info, err := e.call(ctx, "INFO", "server")
	if err != nil {
		return "", err
	}
	// Valkey gives the version of Redis that it is compatible with, too.
	if v := field(info, "valkey_version"); v != "" {
		return "valkey " + v, nil
	}
	return "redis " + field(info, "redis_version"), nil
}

// field reads one field of an INFO reply.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

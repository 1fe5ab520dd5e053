package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Lease is the right to use the server that all commands with one directory
// share. The server runs while at least one lease exists.
//
// Three locks in the directory arrange it, and no process is a master:
//
//	start.lock   held for the moment in which a server is started or stopped
//	users.lock   shared by all leases; who can have it alone is the last one
//	server.lock  inherited by the server, so that it is held while one lives
//
// A holder that is killed loses its lease with its file locks. When it was the
// last, the server stays up, without harm, until the next holder finds it.
type Lease struct {
	dir     shared
	version string

	mu    sync.Mutex
	users *lock // nil once released
}

// Share returns a lease of the shared server of dir, which is made when it does
// not exist. The server is started when it does not run; its data are kept in
// dir, in an append-only file. ctx bounds the start, which includes loading the
// data.
func Share(ctx context.Context, dir string) (*Lease, error) {
	d, err := openShared(dir)
	if err != nil {
		return nil, err
	}
	start, err := waitLock(ctx, d.file("start.lock"))
	if err != nil {
		return nil, err
	}
	defer start.unlock()
	users, err := tryLock(d.file("users.lock"), false)
	if err != nil {
		return nil, err
	}
	if users == nil {
		return nil, fmt.Errorf("embedded: %s is locked, which only a holder of start.lock may do", d.file("users.lock"))
	}
	version, err := d.ensure(ctx)
	if err != nil {
		// What was started on the way must not stay, also when ctx has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		defer users.unlock()
		return nil, errors.Join(err, d.leave(ctx, users))
	}
	return &Lease{dir: d, version: version, users: users}, nil
}

// URL is what tier.Dial takes: unix:///<path>.
func (l *Lease) URL() string { return socketURL(l.dir.cfg.Socket) }

// Dir is the directory with the data.
func (l *Lease) Dir() string { return l.dir.cfg.Dir }

// Version is the server's name and version, as in "valkey 8.0.1".
func (l *Lease) Version() string { return l.version }

// Release gives the lease back. The last one shuts the server down and returns
// when it is gone and its file complete; ctx bounds that, and must be a live
// one also when the program is being interrupted. A second Release does nothing.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == nil {
		return nil
	}
	defer func() {
		l.users.unlock()
		l.users = nil
	}()
	start, err := waitLock(ctx, l.dir.file("start.lock"))
	if err != nil {
		return err
	}
	defer start.unlock()
	return l.dir.leave(ctx, l.users)
}

// Listen makes the shared server listen on TCP as well, on loopback (port 0
// picks a free one), and returns the URL. It does so for as long as the server
// runs. When it listens already, that has to be the address asked for.
func (l *Lease) Listen(ctx context.Context, addr string) (string, error) {
	host, port, err := splitListen(addr)
	if err != nil {
		return "", err
	}
	start, err := waitLock(ctx, l.dir.file("start.lock"))
	if err != nil {
		return "", err
	}
	defer start.unlock()
	info, err := l.dir.endpoint().call(ctx, "INFO", "server")
	if err != nil {
		return "", fmt.Errorf("embedded: %w", err)
	}
	have, _ := strconv.Atoi(field(info, "tcp_port"))
	switch {
	case have == 0 && port == 0:
		free, err := freePorts(host, 1)
		if err != nil {
			return "", err
		}
		port = free[0]
	case have != 0 && port == 0:
		port = have
	case have != 0 && have != port:
		return "", fmt.Errorf("embedded: the server of %s listens on port %d already", l.Dir(), have)
	}
	if have == 0 {
		if _, err := l.dir.endpoint().call(ctx, "CONFIG", "SET", "bind", host, "port", strconv.Itoa(port)); err != nil {
			return "", fmt.Errorf("embedded: listen on %s: %w", addr, err)
		}
	}
	at := endpoint{"tcp", net.JoinHostPort(host, strconv.Itoa(port))}
	if _, err := at.call(ctx, "PING"); err != nil {
		return "", fmt.Errorf("embedded: the server of %s does not answer at %s; it may listen on another address already: %w", l.Dir(), at.addr, err)
	}
	return "valkey://" + at.addr, nil
}

// DefaultDir is the directory that commands share unless they are told another:
// $PIPELINE_DIR, or the user's directory for application data.
func DefaultDir() (string, error) {
	if dir := os.Getenv("PIPELINE_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "echomq"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("embedded: no place for data: %w; set PIPELINE_DIR", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "echomq"), nil
	}
	return filepath.Join(home, ".local", "share", "echomq"), nil
}

// shared is the directory of a shared server.
type shared struct{ cfg Config }

func openShared(dir string) (shared, error) {
	cfg := Config{Dir: dir, AppendOnly: true}
	if err := cfg.setDefaults(); err != nil {
		return shared{}, err
	}
	if err := cfg.validate(); err != nil {
		return shared{}, err
	}
	return shared{cfg}, cfg.makeDirs()
}

func (d shared) file(name string) string { return filepath.Join(d.cfg.Dir, name) }

func (d shared) endpoint() endpoint { return endpoint{"unix", d.cfg.Socket} }

// ensure returns when a server answers, and starts one if none lives.
// start.lock is held.
func (d shared) ensure(ctx context.Context) (version string, err error) {
	started := false
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		// The lock comes before the question: a server that lives may be on its way
		// down, by someone's kill, and then it has to be started after all.
		free, err := tryLock(d.file("server.lock"), true)
		switch {
		case err != nil:
			return "", err
		case free != nil && started:
			free.unlock()
			return "", fmt.Errorf("embedded: start %s: %w; its log ends: %s", d.cfg.Binary, errExited, d.logTail())
		case free != nil:
			if err := d.start(ctx, free); err != nil {
				return "", err
			}
			started = true
		}
		version, err = serverVersion(ctx, d.endpoint())
		if err == nil {
			_, err = d.endpoint().call(ctx, "PING") // refused while data are being loaded
		}
		if err == nil {
			return version, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("embedded: the server of %s (log: %s) does not answer: %w (%w)",
				d.cfg.Dir, d.file("server.log"), err, ctx.Err())
		}
	}
}

// start runs a server that outlives us. It detaches itself, so that it is
// nobody's child, and it keeps the lock that it inherits.
func (d shared) start(ctx context.Context, held *lock) error {
	defer held.leave()
	// Each run has a log of its own, so that an error quotes the right one. The
	// server replaces a socket that a killed one has left.
	if err := os.Remove(d.file("server.log")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("embedded: %w", err)
	}
	args := append(d.cfg.args(loopback, 0, 0),
		"--daemonize", "yes", "--logfile", d.file("server.log"), "--pidfile", d.file("server.pid"))
	cmd := exec.CommandContext(ctx, d.cfg.Binary, args...)
	cmd.Env = environ()
	cmd.ExtraFiles = []*os.File{held.f}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil { // which ended it
		return fmt.Errorf("embedded: start %s: %w", d.cfg.Binary, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("embedded: start %s: %w; it said: %s %s", d.cfg.Binary, err, out, d.logTail())
	}
	return nil
}

func (d shared) logTail() string {
	data, _ := os.ReadFile(d.file("server.log"))
	t := &tail{}
	_, _ = t.Write(data)
	return t.String()
}

// leave shuts the server down if nobody but users uses it. start.lock is held.
func (d shared) leave(ctx context.Context, users *lock) error {
	last, err := users.upgrade()
	if err != nil || !last {
		return err
	}
	return d.shutdown(ctx)
}

// shutdown ends the server and waits until it is gone. start.lock is held.
func (d shared) shutdown(ctx context.Context) error {
	// NOSAVE is about snapshots, which we do not keep; the append-only file is
	// flushed all the same.
	_, err := d.endpoint().call(ctx, "SHUTDOWN", "NOSAVE")
	if refused := replyError(""); errors.As(err, &refused) {
		return fmt.Errorf("embedded: shut down the server of %s: %w", d.cfg.Dir, err)
	}
	// Success is a closed connection, so every other error means: wait and see.
	gone, err := waitLock(ctx, d.file("server.lock"))
	if err != nil {
		return fmt.Errorf("embedded: the server of %s does not end: %w", d.cfg.Dir, err)
	}
	gone.unlock()
	return nil
}

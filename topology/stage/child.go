package stage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"
	"golang.org/x/sync/semaphore"

	"github.com/echomq/pipeline/tier"
)

const (
	defaultBackoff = Duration(100 * time.Millisecond)
	maxChildPause  = 30 * time.Second
	// childGrace is how long a child may take to end once its input has, and who holds its output after it has.
	childGrace = 2 * time.Second
)

// ChildError says why a child process was of no use to a message: it ended, or it was ended for what it did. Each message that it
// held has failed by it.
type ChildError struct {
	Program string
	Err     error
	Stderr  string // the last line of its standard error, its beginning
}

func (e *ChildError) Error() string {
	text := fmt.Sprintf("stage: %s: %v", e.Program, e.Err)
	if e.Stderr != "" {
		text += fmt.Sprintf(": %.256q", e.Stderr)
	}
	return text
}

// Unwrap is the reason.
func (e *ChildError) Unwrap() error { return e.Err }

// Why a child is ended.
var (
	ErrChildTimeout = errors.New("no answer in time, see timeout")
	ErrChildLine    = errors.New("a line is longer than max_line")
	ErrChildAnswer  = errors.New("a line is no answer to a message that it holds")
)

// supervisor keeps one child, which begins when it is first asked for, and anew after it has ended: at once when it has run for
// longer than the pause, which doubles until a child has answered.
type supervisor struct {
	program string
	cfg     Exec
	first   time.Duration
	log     *slog.Logger

	turn  *semaphore.Weighted // of one: who looks after the child
	child *child
	pause time.Duration
	due   time.Time
	conc.WaitGroup
}

// running is the child, once there is one.
func (s *supervisor) running(ctx context.Context) (*child, error) {
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer s.turn.Release(1)
	if s.child != nil && !s.child.gone() {
		return s.child, nil
	}
	if s.pause = min(2*s.pause, maxChildPause); s.child == nil || s.child.answered.Load() {
		s.pause = s.first
	}
	s.child = nil
	for {
		if wait := time.Until(s.due); wait > 0 && !tier.Pause(ctx, wait) {
			return nil, context.Cause(ctx)
		}
		s.due = time.Now().Add(s.pause)
		c, err := s.begin()
		if err == nil {
			s.child = c
			return c, nil
		}
		s.log.Error("the program of a stage does not start; it is tried again", slog.Any("err", err)) // no fault of a message
		s.pause = min(2*s.pause, maxChildPause)
	}
}

// begin starts a child.
func (s *supervisor) begin() (*child, error) {
	cmd := exec.Command(s.program, s.cfg.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.cfg.Dir, childEnvironment(s.cfg.Env), childGrace
	cmd.SysProcAttr = childAttr()
	c := &child{cmd: cmd, name: filepath.Base(s.program), waiting: map[string]chan ExecAnswer{}, ended: make(chan struct{}), stderr: childLog{log: s.log}}
	cmd.Stderr = &c.stderr
	var stdout io.ReadCloser
	var err error
	if c.stdin, err = cmd.StdinPipe(); err == nil {
		stdout, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	s.Go(func() { c.serve(stdout, int(or(s.cfg.MaxLine, 1<<20))) })
	return c, nil
}

// end ends the child: its input ends, and then it.
func (s *supervisor) end() {
	if s.child != nil {
		_ = s.child.stdin.Close()
		late := time.AfterFunc(childGrace, func() { s.child.kill(errors.New("it did not end with its input")) })
		defer late.Stop()
	}
	s.Wait()
}

// childEnvironment is the least that programs want, and what the declaration says: nothing that could be a secret of ours.
func childEnvironment(more map[string]string) (env []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		env = append(env, name+"="+more[name])
	}
	return env
}

// child is a process that holds messages.
type child struct {
	cmd    *exec.Cmd
	name   string
	stdin  io.WriteCloser
	stderr childLog
	write  sync.Mutex

	mu      sync.Mutex
	waiting map[string]chan ExecAnswer
	reason  error // the first; whole once it has ended

	answered atomic.Bool
	ended    chan struct{}
}

// gone tells whether it has ended, or is about to.
func (c *child) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason != nil
}

// kill ends the child with all that it has started. The first reason is the one.
func (c *child) kill(reason error) {
	c.mu.Lock()
	if c.reason == nil {
		c.reason = reason
	}
	c.mu.Unlock()
	select {
	case <-c.ended: // its number may be another's
	default:
		killGroup(c.cmd.Process)
	}
}

// ask gives the child a message, and waits for its answer. Whoever waits no longer ends the child, since its answer would be nobody's.
func (c *child) ask(ctx context.Context, id string, line []byte, timeout time.Duration) (ExecAnswer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrChildTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.kill(context.Cause(ctx)) })
	defer stop()
	answer := make(chan ExecAnswer, 1)
	c.mu.Lock()
	_, twice := c.waiting[id]
	if !twice {
		c.waiting[id] = answer
	}
	c.mu.Unlock()
	if twice {
		return ExecAnswer{}, fmt.Errorf("stage: %s holds %s already", c.name, id)
	}
	c.write.Lock()
	_, err := c.stdin.Write(line) // ends when the child does
	c.write.Unlock()
	if err != nil {
		c.kill(fmt.Errorf("it takes no more messages: %w", err))
	}
	select {
	case a := <-answer:
		return a, nil
	case <-c.ended:
	}
	select {
	case a := <-answer: // the last that it said
		return a, nil
	default:
		return ExecAnswer{}, c.reason
	}
}

// serve reads answers until the child ends, which it then has.
func (c *child) serve(stdout io.Reader, maxLine int) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 0, min(64<<10, maxLine)), maxLine)
	for lines.Scan() {
		if err := c.take(lines.Bytes()); err != nil {
			c.kill(err)
			break
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		c.kill(ErrChildLine)
	}
	late := time.AfterFunc(childGrace, func() { c.kill(errors.New("it says nothing more, and does not end")) })
	defer late.Stop()
	err := c.cmd.Wait()      // closes its output, which ends one that writes on
	killGroup(c.cmd.Process) // what it has left behind; no other group has its number while there is one of this
	c.stderr.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		c.reason = err
	}
	if c.reason == nil {
		c.reason = errors.New("it has ended")
	}
	if len(c.waiting) > 0 {
		c.stderr.log.Warn("the program of a stage has ended with messages; they are tried again, each alone", slog.Int("messages", len(c.waiting)), slog.Any("err", c.reason))
	}
	c.reason = &ChildError{c.name, c.reason, string(c.stderr.last)}
	close(c.ended)
}

// take hands an answer to who waits for it.
func (c *child) take(line []byte) error {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	var a ExecAnswer
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("%w: %.100q: %w", ErrChildAnswer, line, err)
	}
	c.mu.Lock()
	waits, asked := c.waiting[a.ID]
	delete(c.waiting, a.ID)
	c.mu.Unlock()
	if !asked {
		return fmt.Errorf("%w: %.100q", ErrChildAnswer, line)
	}
	c.answered.Store(true)
	waits <- a
	return nil
}

// Bounds of what a child's standard error has in the log.
const (
	maxStderrLine  = 1024
	maxStderrLines = 100 // in
	stderrWindow   = 10 * time.Second
)

// childLog is a child's standard error on its way into the log. One goroutine writes.
type childLog struct {
	log           *slog.Logger
	line, last    []byte
	since         time.Time
	lines, missed int
}

// Write implements io.Writer.
func (l *childLog) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			l.flush()
		} else if len(l.line) < maxStderrLine {
			l.line = append(l.line, b)
		}
	}
	return len(p), nil
}

// flush ends a line.
func (l *childLog) flush() {
	line := bytes.TrimRight(l.line, "\r")
	if l.line = l.line[:0]; len(line) == 0 {
		return
	}
	l.last = append(l.last[:0], line...)
	if now := time.Now(); now.Sub(l.since) > stderrWindow {
		if l.missed > 0 {
			l.log.Warn("more on standard error", slog.Int("lines", l.missed))
		}
		l.since, l.lines, l.missed = now, 0, 0
	}
	if l.lines++; l.lines > maxStderrLines {
		l.missed++
		return
	}
	l.log.Warn("on standard error", slog.String("line", string(line)))
}

package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// child is a consumer in a process of its own.
type child struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.Closer
	errs    bytes.Buffer
	ended   chan struct{} // closed when its last report was read
	reports int           // taken so far
	killed  bool
}

// report is a message that a child has handled.
type report struct {
	from *child
	handled
}

// startChild starts a consumer, whose reports go to reports.
func startChild(cfg Config, url, name string, reports chan<- report) (*child, error) {
	c := &child{name: name, cmd: exec.Command(cfg.Worker[0], append(cfg.Worker[1:], name)...), ended: make(chan struct{})}
	c.cmd.Env = append(cfg.Environ, "PIPELINE_URL="+url)
	c.cmd.Stderr = &c.errs
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start consumer %s: %w", name, err)
	}
	go func() {
		defer close(c.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			r := report{from: c}
			if json.Unmarshal(lines.Bytes(), &r.handled) == nil {
				reports <- r
			}
		}
	}()
	return c, nil
}

// kill ends the process as a crash does: SIGKILL, nothing is cleaned up.
func (c *child) kill() {
	c.killed = true
	_ = c.cmd.Process.Kill()
}

// stop asks the process to end and waits for it.
func (c *child) stop() error {
	if !c.killed {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
	}
	c.stdin.Close()
	<-c.ended
	err := c.cmd.Wait()
	if c.killed || c.errs.Len() == 0 {
		return nil
	}
	return fmt.Errorf("%s: %v: %s", c.name, err, bytes.TrimSpace(c.errs.Bytes()))
}

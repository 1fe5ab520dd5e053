package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is one run of a server. Its one goroutine waits for the child and
// ends with it.
type process struct {
	cmd    *exec.Cmd
	log    *tail
	exited chan struct{} // closed when the child is gone and waited for
}

// pipeDelay is how long an orphan of a killed server, which may be rewriting the
// append-only file, can keep us waiting for the end of the log.
const pipeDelay = time.Second

func spawn(binary string, args []string, log io.Writer) (*process, error) {
	p := &process{
		cmd:    exec.Command(binary, args...),
		log:    &tail{to: log},
		exited: make(chan struct{}),
	}
	p.cmd.Env = environ()
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = childAttr()
	p.cmd.WaitDelay = pipeDelay

	started := make(chan error)
	go func() {
		// The child dies with the thread that started it, not with the process:
		// the thread must live, and be nobody else's, until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // how it ended stands in the log
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return p, nil
}

// signal does not fail for a process that has ended.
func (p *process) signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("embedded: signal %v to server %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}

func (p *process) freeze() error {
	if err := p.signal(sigFreeze); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !stands(p.cmd.Process.Pid) {
		select {
		case <-tick.C:
		case <-p.exited:
			return nil
		}
	}
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) stop(ctx context.Context) error {
	// The term waits while the process is frozen.
	if err := errors.Join(p.signal(sigTerm), p.signal(sigThaw)); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("embedded: server %d did not stop in time and was killed: %w", p.cmd.Process.Pid, ctx.Err())
	}
}

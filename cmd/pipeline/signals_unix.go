//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

const sigPipe = syscall.SIGPIPE

// ownGroup gives a child a process group of its own: a Ctrl-C at the terminal is
// for us, who let the child finish. Ending the child ends its whole group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

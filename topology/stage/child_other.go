//go:build !unix

package stage

import (
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { _ = p.Kill() }

//go:build unix && !linux

package stage

import "syscall"

// childAttr: there is no way here to have a child die with us; it ends with its input.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

//go:build unix && !linux

package embedded

import "syscall"

// childAttr: there is no way here to make a child die with us. The group of its
// own keeps a ctrl-C at the terminal, which is ours to handle, from it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stands says whether a process that was told to stop has done so: a moment
// later, and nothing here can tell when.
func stands(int) bool { return true }

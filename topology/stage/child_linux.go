package stage

import "syscall"

// childAttr has the child killed when we are, so that it does not work on beside the one that does its work again. The group of
// its own keeps a ctrl-C at the terminal, which is ours to handle, from it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

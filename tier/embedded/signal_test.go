package embedded_test

import "syscall"

const (
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)

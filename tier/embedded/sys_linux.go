package embedded

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttr makes the child die with the thread that starts it. The group of
// its own keeps a ctrl-C at the terminal, which is ours to handle, from it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// stands says whether a process that was told to stop has done so.
func stands(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") T "))
}

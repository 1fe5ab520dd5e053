//go:build unix

package embedded

import (
	"fmt"
	"os"
	"syscall"
)

var (
	sigTerm   os.Signal = syscall.SIGTERM
	sigFreeze os.Signal = syscall.SIGSTOP
	sigThaw   os.Signal = syscall.SIGCONT
)

// ownedByUs refuses a directory that someone else could write to.
func ownedByUs(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.IsDir() || int(st.Uid) != os.Getuid() || fi.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("embedded: %s is not a directory that only this user can reach; remove it", dir)
	}
	return nil
}

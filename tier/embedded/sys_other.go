//go:build !unix

package embedded

import (
	"os"
	"syscall"
)

// There is no server for these systems; the package compiles so that programs
// which use a server elsewhere can be built.
var (
	sigTerm   os.Signal = os.Interrupt
	sigFreeze os.Signal = os.Interrupt
	sigThaw   os.Signal = os.Interrupt
)

func childAttr() *syscall.SysProcAttr { return nil }

func ownedByUs(string) error { return nil }

func stands(int) bool { return true }

//go:build !unix

package main

import (
	"os/exec"
	"syscall"
)

const sigPipe = syscall.SIGPIPE

func ownGroup(*exec.Cmd) {}

package main

import "syscall"

// endWithUs has a child told to end when we are killed, so that it does not work on beside the one that does its work again.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }

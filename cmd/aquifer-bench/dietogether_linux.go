package main

import "syscall"

// dieTogether makes a child end when the harness is killed and cannot end it.
func dieTogether() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

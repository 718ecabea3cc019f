package child

import "syscall"

// dieTogether makes a child end when the process that started it is killed and cannot end it.
func dieTogether() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

//go:build !linux

package child

import "syscall"

func dieTogether() *syscall.SysProcAttr { return nil }

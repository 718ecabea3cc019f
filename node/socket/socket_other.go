//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

func look(syscall.RawConn) (left int, err error) { return 0, errors.ErrUnsupported }

func boundUnsent(syscall.RawConn, int) {}

package socket

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// look returns how many bytes the peer has not acknowledged (SIOCOUTQ, tcp(7)). It fails with ECONNRESET if the
// peer has broken the connection off, which is what closing one with unread bytes does.
func look(raw syscall.RawConn) (left int, err error) {
	broken := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err != nil {
			return
		}
		if info.State == unix.BPF_TCP_CLOSE {
			err = unix.ECONNRESET
			return
		}
		left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	return left, errors.Join(broken, err)
}

// boundUnsent sets TCP_NOTSENT_LOWAT. Without it all works as on other systems.
func boundUnsent(raw syscall.RawConn, bytes int) {
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}

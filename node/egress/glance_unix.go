//go:build unix

package egress

import (
	"errors"
	"net"
	"syscall"
)

// glance looks at a socket without waiting, which costs a system call and no goroutine.
type glance struct {
	raw   syscall.RawConn
	read  func(fd uintptr) bool
	buf   [1]byte
	empty bool
}

// newGlance returns nil if c has no socket.
func newGlance(c net.Conn) *glance {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	g := &glance{raw: raw}
	g.read = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), g.buf[:])
		g.empty = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
		return true
	}
	return g
}

// quiet reports whether the socket is open and nothing waits to be read. What it finds is lost.
func (g *glance) quiet() bool {
	g.empty = false
	return g.raw.Read(g.read) == nil && g.empty
}

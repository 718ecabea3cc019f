package egress

import (
	"errors"
	"net"
	"os"
	"time"
)

// link is a connection for plain HTTP/1.1. One exchange at a time owns it; between two of them it is idle
// and the links own it.
type link struct {
	*conn
	address string
	room    int64 // how much more of the answer's header may be read

	cut    func()  // closes the link
	glance *glance // tells without waiting whether something has come; nil: watch does it
	watch  *watch  // of an idle link without glance
}

func newLink(c *conn, address string) *link {
	return &link{conn: c, address: address, glance: newGlance(c.Conn), cut: func() { _ = c.Close() }}
}

// Read reads no more than there is room for.
func (l *link) Read(p []byte) (int, error) {
	if l.room <= 0 {
		return 0, errHeaderTooLarge
	}
	if int64(len(p)) > l.room {
		p = p[:l.room]
	}
	n, err := l.conn.Read(p)
	l.room -= int64(n)
	return n, err
}

// rest makes the link ready to be idle among s. One without glance finds out by itself if the other side
// then closes it or says something unasked, and leaves.
func (l *link) rest(s *links) {
	if l.glance == nil {
		_ = l.SetReadDeadline(time.Time{})
		l.watch = &watch{done: make(chan struct{})}
		go l.watch.run(l.Conn, func() { s.remove(l) })
	}
}

// rouse makes an idle link ready for an exchange until deadline, and reports whether it may carry one:
// the other side has neither closed it nor said something unasked. Of that nothing may be left to be
// taken for the answer to the next request.
func (l *link) rouse(deadline time.Time) bool {
	if l.glance == nil && !l.watch.end(l.conn) {
		return false
	}
	return l.SetDeadline(deadline) == nil && (l.glance == nil || l.glance.quiet())
}

// stale reports whether rouse would refuse an idle link. A watch closes its link itself.
func (l *link) stale() bool {
	return l.glance != nil && (l.SetReadDeadline(time.Time{}) != nil || !l.glance.quiet())
}

// watch reads a connection that has no socket to look at, as one in memory, while it is idle.
type watch struct {
	done  chan struct{}
	quiet bool // nothing came until it was told to end; valid once done is closed
}

func (w *watch) run(c net.Conn, gone func()) {
	n, err := c.Read(make([]byte, 1))
	w.quiet = n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
	close(w.done)
	if !w.quiet {
		gone()
	}
}

// end ends the watch and reports whether the connection was quiet.
func (w *watch) end(c *conn) bool {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // a read that waits ends
	<-w.done
	return w.quiet
}

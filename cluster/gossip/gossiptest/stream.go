package gossiptest

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// stream is one end of a connection: what is written takes as long as its link makes it.
type stream struct {
	net.Conn
	port *port // at this end
	link link

	// mu guards limit and timer.
	mu    sync.Mutex
	limit chan struct{} // closed when a write has waited long enough, or when the stream is closed
	timer *time.Timer
}

func newStream(c net.Conn, p *port, l link) *stream {
	return &stream{Conn: c, port: p, link: l, limit: make(chan struct{})}
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	limit := s.limit
	s.mu.Unlock()
	if !s.port.cross(s.link, resend, limit) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Write(b)
}

func (s *stream) SetDeadline(t time.Time) error {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	limit := make(chan struct{})
	s.limit, s.timer = limit, time.AfterFunc(time.Until(t), func() { close(limit) })
	s.mu.Unlock()
	return s.Conn.SetDeadline(t)
}

func (s *stream) RemoteAddr() net.Addr { return addr(s.link.to) }
func (s *stream) LocalAddr() net.Addr  { return addr(s.link.from) }

func addr(a netip.Addr) net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0)) }

// cross waits as long as a segment takes over a link, with what has to be sent again after some time; false if
// the limit comes first.
func (p *port) cross(l link, again time.Duration, limit <-chan struct{}) bool {
	for {
		takes, lost, cut := p.network.way(l)
		cut = cut || p.crashed.Load()
		switch {
		case cut:
			takes = pause
		case lost:
			takes = again
			again *= 2
		}
		select {
		case <-time.After(takes):
		case <-limit:
			return false
		}
		if !cut && !lost {
			return true
		}
	}
}

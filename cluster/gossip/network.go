package gossip

import (
	"context"
	"io"
	"log"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Network opens the ports that nodes gossip at. Package gossiptest has one in memory.
type Network interface {
	// Listen opens a port, for packets and streams, which is closed by the transport's Shutdown. An
	// address that is not valid stands for all of the machine's, the port 0 for any that is free. Shutdown
	// ends calls that have not been answered, too.
	Listen(bind netip.AddrPort, logger *log.Logger) (memberlist.NodeAwareTransport, error)
}

// Try opens a port and closes it again. The error says why a node cannot gossip there; nil stands for the network that
// there is.
func Try(n Network, bind string) error {
	at, err := parseBind(bind)
	if err != nil {
		return err
	}
	if n == nil {
		n = machine{}
	}
	t, err := n.Listen(at, log.New(io.Discard, "", 0))
	if err != nil {
		return err
	}
	return newLine(t).Shutdown()
}

// machine is the network that there is: UDP and TCP.
type machine struct{}

func (machine) Listen(bind netip.AddrPort, logger *log.Logger) (memberlist.NodeAwareTransport, error) {
	address := "" // memberlist takes it for all addresses of both families
	if bind.Addr().IsValid() {
		address = bind.Addr().String()
	}
	t, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{address}, BindPort: int(bind.Port()), Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &sockets{NetTransport: t, open: ctx, close: cancel}, nil
}

// sockets is memberlist's transport, but for calls, which end when it is shut down.
type sockets struct {
	*memberlist.NetTransport
	open  context.Context // memberlist's calls have none
	close context.CancelFunc
}

func (s *sockets) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(s.open, "tcp", to)
}

func (s *sockets) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return s.DialTimeout(to.Addr, timeout)
}

func (s *sockets) Shutdown() error {
	s.close()
	return s.NetTransport.Shutdown()
}

// line is a transport whose end ends also what goes on over it, so that a node that stops waits for nobody.
type line struct {
	memberlist.NodeAwareTransport

	// mu guards calls and closed.
	mu     sync.Mutex
	calls  map[net.Conn]bool // that this node began
	closed bool
}

func newLine(t memberlist.NodeAwareTransport) *line {
	return &line{NodeAwareTransport: t, calls: make(map[net.Conn]bool)}
}

func (l *line) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	return l.DialAddressTimeout(memberlist.Address{Addr: to}, timeout)
}

func (l *line) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if l.over() {
		return nil, net.ErrClosed
	}
	c, err := l.NodeAwareTransport.DialAddressTimeout(to, timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	l.calls[c] = true
	return &call{c, l}, nil
}

func (l *line) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Shutdown closes the port. It takes what still arrives meanwhile, since the transport waits for its readers.
func (l *line) Shutdown() error {
	l.mu.Lock()
	l.closed = true
	for c := range l.calls {
		_ = c.Close()
	}
	l.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- l.NodeAwareTransport.Shutdown() }()
	for {
		select {
		case err := <-done:
			return err
		case <-l.PacketCh():
		case c := <-l.StreamCh():
			_ = c.Close()
		}
	}
}

// call is a connection that its line forgets when it is closed.
type call struct {
	net.Conn
	line *line
}

func (c *call) Close() error {
	c.line.mu.Lock()
	delete(c.line.calls, c.Conn)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

package gossiptest

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Host is one machine of a Network. It opens ports as a real one does.
type Host struct {
	network *Network
	at      netip.Addr
}

// Listen opens a port of the host. Whatever address bind has, the port is at the host's own.
func (h Host) Listen(bind netip.AddrPort, _ *log.Logger) (memberlist.NodeAwareTransport, error) {
	p := &port{
		network: h.network,
		at:      netip.AddrPortFrom(h.at, bind.Port()),
		packets: make(chan *memberlist.Packet, 1024),
		streams: make(chan net.Conn, 128),
		closed:  make(chan struct{}),
	}
	if err := h.network.open(p); err != nil {
		return nil, err
	}
	return p, nil
}

// port is the transport of one node. What nobody takes in time is dropped, so that no sender waits.
type port struct {
	network *Network
	at      netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
	once    sync.Once // closes closed
	crashed atomic.Bool
}

func (p *port) receive(from netip.AddrPort, b []byte) {
	select {
	case p.packets <- &memberlist.Packet{Buf: b, From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()}:
	default:
	}
}

func (p *port) FinalAdvertiseAddr(ip string, number int) (net.IP, int, error) {
	if ip == "" {
		return p.at.Addr().AsSlice(), int(p.at.Port()), nil
	}
	at, err := netip.ParseAddr(ip)
	return at.AsSlice(), number, err
}

func (p *port) WriteTo(b []byte, to string) (time.Time, error) {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return time.Time{}, err
	}
	if !p.crashed.Load() {
		p.network.packet(p.at, at, b)
	}
	return time.Now(), nil
}

func (p *port) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	return p.WriteTo(b, to.Addr)
}

func (p *port) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return p.DialTimeout(to.Addr, timeout)
}

func (p *port) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, err
	}
	if p.crashed.Load() {
		return nil, net.ErrClosed
	}
	there := link{p.at.Addr(), at.Addr()}
	back := link{at.Addr(), p.at.Addr()}
	wait, done := context.WithTimeout(context.Background(), timeout)
	defer done()
	go func() {
		select {
		case <-p.closed:
			done()
		case <-wait.Done():
		}
	}()
	if !p.cross(there, resendDial, wait.Done()) || !p.cross(back, resendDial, wait.Done()) {
		return nil, fmt.Errorf("dial %s: %w", to, os.ErrDeadlineExceeded)
	}
	other, open := p.network.port(at)
	if !open {
		return nil, fmt.Errorf("dial %s: connection refused", to)
	}
	mine, theirs := net.Pipe()
	select {
	case other.streams <- newStream(theirs, other, back):
		return newStream(mine, p, there), nil
	default:
		return nil, fmt.Errorf("dial %s: connection refused", to)
	}
}

func (p *port) PacketCh() <-chan *memberlist.Packet { return p.packets }
func (p *port) StreamCh() <-chan net.Conn           { return p.streams }

func (p *port) Shutdown() error {
	p.network.close(p)
	p.once.Do(func() { close(p.closed) })
	for {
		select {
		case c := <-p.streams:
			_ = c.Close()
		default:
			return nil
		}
	}
}

// Dial opens a stream from a host, which need not have a port, to a port.
func (h Host) Dial(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	return (&port{network: h.network, at: netip.AddrPortFrom(h.at, 1)}).DialTimeout(to.String(), timeout)
}

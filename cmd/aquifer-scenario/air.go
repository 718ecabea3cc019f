package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// air carries the packets of gossip to one node, from an address that the others know to the one at which it
// listens. It tells senders apart by the port they send from, which is the one at which they listen.
type air struct {
	conn   *net.UDPConn
	behind netip.AddrPort
	to     place
	net    *network
	who    func(netip.AddrPort) (place, bool)
	done   sync.WaitGroup
}

// maxPacket is the longest packet of UDP.
const maxPacket = 64 << 10

func newAir(a *air, addr string) (*air, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address of %s: %w", a.to, err)
	}
	open := func() (*net.UDPConn, error) { return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)) }
	if a.conn, err = insist(open); err != nil {
		return nil, fmt.Errorf("packets of %s: %w", a.to, err)
	}
	a.done.Go(a.run)
	return a, nil
}

func (a *air) run() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := a.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // nobody has listened behind it: the system tells of an earlier packet
			continue
		}
		sender, known := a.who(from)
		if !known {
			continue
		}
		arrives, late := a.net.link(sender, a.to).packet()
		if !arrives {
			continue
		}
		if late == 0 {
			_, _ = a.conn.WriteToUDPAddrPort(buf[:n], a.behind) // packets may be lost
			continue
		}
		packet := append([]byte(nil), buf[:n]...)
		time.AfterFunc(late, func() { _, _ = a.conn.WriteToUDPAddrPort(packet, a.behind) })
	}
}

func (a *air) close() {
	a.conn.Close()
	a.done.Wait()
}

package gossiptest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Network connects hosts. It is safe for concurrent use.
type Network struct {
	// mu guards everything below it.
	mu    sync.Mutex
	rand  *rand.Rand
	ports map[netip.AddrPort]*port // that are open
	cut   map[link]bool
	lossy map[netip.Addr]float64
	slow  map[netip.Addr]time.Duration
	alias map[netip.Addr]netip.Addr
}

// link is one direction between two hosts.
type link struct{ from, to netip.Addr }

const (
	// latency is the way from any host to any other.
	latency = time.Millisecond
	// resend is after what time TCP sends again what was lost; resendDial is that of the first packet.
	resend     = 200 * time.Millisecond
	resendDial = time.Second
	// pause is how often who waits at a cut link looks whether it is whole again.
	pause = 50 * time.Millisecond
)

// New returns a network without hosts. Equal seeds lose the same packets as long as the hosts send the same.
func New(seed uint64) *Network {
	return &Network{
		rand:  rand.New(rand.NewPCG(seed, 0)),
		ports: make(map[netip.AddrPort]*port),
		cut:   make(map[link]bool),
		lossy: make(map[netip.Addr]float64),
		slow:  make(map[netip.Addr]time.Duration),
		alias: make(map[netip.Addr]netip.Addr),
	}
}

// Host returns the host at that address; all hosts exist.
func (n *Network) Host(at netip.Addr) Host { return Host{n, at} }

// Cut ends what goes from one host to another; what goes the other way still arrives.
func (n *Network) Cut(from, to netip.Addr) { n.set(func() { n.cut[link{from, to}] = true }) }

// Part ends all traffic between hosts of both groups.
func (n *Network) Part(some, others []netip.Addr) {
	for _, a := range some {
		for _, b := range others {
			n.Cut(a, b)
			n.Cut(b, a)
		}
	}
}

// Isolate ends all traffic of a host, also with hosts that open a port later, until Rejoin.
func (n *Network) Isolate(host netip.Addr) { n.Lose(host, 1) }

// Rejoin ends Isolate, and Lose.
func (n *Network) Rejoin(host netip.Addr) { n.Lose(host, 0) }

// Heal undoes every Cut and Part.
func (n *Network) Heal() { n.set(func() { n.cut = make(map[link]bool) }) }

// Lose drops a share of the packets that a host sends or is sent, from 0 to 1.
func (n *Network) Lose(host netip.Addr, share float64) { n.set(func() { n.lossy[host] = share }) }

// Delay makes everything that a host sends or is sent take that much longer.
func (n *Network) Delay(host netip.Addr, by time.Duration) { n.set(func() { n.slow[host] = by }) }

// Alias gives a host one more address.
func (n *Network) Alias(another, host netip.Addr) { n.set(func() { n.alias[another] = host }) }

// Crash lets the processes on a host die as kill -9 would: their ports are free again, and what they do from now on
// nobody sees, though they may still run.
func (n *Network) Crash(host netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, p := range n.ports {
		if at.Addr() == host {
			p.crashed.Store(true)
			delete(n.ports, at)
		}
	}
}

// Inject sends a packet from a host, which need not have a port, to an open port.
func (n *Network) Inject(from, to netip.AddrPort, packet []byte) { n.packet(from, to, packet) }

// Open returns the ports that are open.
func (n *Network) Open() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.SortedFunc(maps.Keys(n.ports), netip.AddrPort.Compare)
}

func (n *Network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// way is what happens to the next packet of a link.
func (n *Network) way(l link) (takes time.Duration, lost, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	share := max(n.lossy[l.from], n.lossy[l.to])
	return latency + n.slow[l.from] + n.slow[l.to], n.rand.Float64() < share, n.cut[l] || share >= 1
}

func (n *Network) port(at netip.AddrPort) (*port, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if host, ok := n.alias[at.Addr()]; ok {
		at = netip.AddrPortFrom(host, at.Port())
	}
	p, open := n.ports[at]
	return p, open
}

func (n *Network) open(p *port) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[p.at] != nil {
		return fmt.Errorf("listen %s: address already in use", p.at)
	}
	n.ports[p.at] = p
	return nil
}

func (n *Network) close(p *port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[p.at] == p {
		delete(n.ports, p.at)
	}
}

// packet sends one packet, which arrives or not.
func (n *Network) packet(from, to netip.AddrPort, b []byte) {
	takes, lost, cut := n.way(link{from.Addr(), to.Addr()})
	if lost || cut {
		return
	}
	b = slices.Clone(b)
	time.AfterFunc(takes, func() {
		if p, open := n.port(to); open {
			p.receive(from, b)
		}
	})
}

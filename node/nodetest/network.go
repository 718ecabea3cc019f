package nodetest

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Network is machines that reach each other by name, without delay and in order, as over TCP. Links
// can be cut, and machines can go. It has to be made in the bubble in which it is used.
//
// One lock guards it with all its machines and connections: what happens to a machine happens to all
// its connections at the same moment.
type Network struct {
	mu    sync.Mutex
	moved sync.Cond // wakes dials that wait for a link
	names map[string]*Machine
	addrs map[netip.Addr]*Machine
	last  netip.Addr
	cut   map[link]bool
	conns map[*conn]struct{} // both ends of each connection that is not over
	tap   func(Traffic)
	// dialled counts connections, and makes the ports that they come from.
	dialled int
}

// link is a pair of machines, the one with the lower address first.
type link [2]*Machine

func linkOf(a, b *Machine) link {
	if b.addr.Less(a.addr) {
		a, b = b, a
	}
	return link{a, b}
}

// NewNetwork returns a network without machines.
func NewNetwork() *Network {
	n := &Network{
		names: make(map[string]*Machine), addrs: make(map[netip.Addr]*Machine), last: netip.MustParseAddr("20.0.0.0"),
		cut: make(map[link]bool), conns: make(map[*conn]struct{}),
	}
	n.moved.L = &n.mu
	return n
}

// Traffic is something that a machine is about to send.
type Traffic struct {
	From, To string // the names of the machines
	Port     uint16 // where To listens
	Data     []byte // nil for the opening of a connection; valid only during the call
	// Answer is true for what comes from the side that accepted the connection.
	Answer bool
}

// Tap has f called before anything is sent, by the goroutine that sends it. What f does, the network
// has done when the bytes go: killing the sender keeps them from arriving. nil ends it.
func (n *Network) Tap(f func(Traffic)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tap = f
}

// watch tells the tap what a process is about to send.
func (n *Network) watch(p *Process, t Traffic) {
	n.mu.Lock()
	tap, lost := n.tap, p.frozen
	n.mu.Unlock()
	if t.From = p.machine.name; tap != nil && !lost {
		tap(t)
	}
}

// Machine returns the machine that a name stands for. A new name makes a new one, with a public
// address.
func (n *Network) Machine(name string) *Machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.names[name]; m != nil {
		return m
	}
	n.last = n.last.Next()
	return n.add(name, n.last)
}

// MachineAt makes a machine at an address. It has the name too, if that is not empty.
func (n *Network) MachineAt(name, addr string) *Machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.add(name, netip.MustParseAddr(addr))
}

func (n *Network) add(name string, addr netip.Addr) *Machine {
	m := &Machine{net: n, name: name, addr: addr, ports: make(map[uint16]*listener)}
	m.process = &Process{machine: m}
	n.addrs[addr] = m
	if name != "" {
		n.names[name] = m
	}
	return m
}

// Point lets a name stand for another machine from now on. Connections stay where they are.
func (n *Network) Point(name string, m *Machine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = m
}

// Cut loses everything between two machines, without a word to either. What is sent meanwhile arrives
// once Heal is called, as TCP repeats it.
func (n *Network) Cut(a, b *Machine) { n.setCut(a, b, true) }

// Heal ends a Cut.
func (n *Network) Heal(a, b *Machine) { n.setCut(a, b, false) }

func (n *Network) setCut(a, b *Machine, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[linkOf(a, b)] = cut
	for c := range n.conns {
		c.deliver()
	}
	n.moved.Broadcast()
}

// Open is how many connections there are.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return (len(n.conns) + 1) / 2
}

// lookup finds a machine by name or address; n.mu is held.
func (n *Network) lookup(host string) (*Machine, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if m := n.addrs[addr.Unmap()]; m != nil {
			return m, nil
		}
		return nil, syscall.EHOSTUNREACH
	}
	if m := n.names[strings.ToLower(strings.TrimSuffix(host, "."))]; m != nil {
		return m, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// Machine is one machine. Its methods are safe for concurrent use.
type Machine struct {
	net  *Network
	name string
	addr netip.Addr

	// Guarded by the network's lock.
	ports   map[uint16]*listener
	process *Process // the one that uses the network now
}

// Name is the name that the machine was made with.
func (m *Machine) Name() string { return m.name }

// Process is what uses the network of the machine now.
func (m *Machine) Process() *Process {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	return m.process
}

// Process is a process on a machine, as the network knows it. Its Listen and Dial have the form that
// node.Deps wants.
type Process struct {
	machine *Machine
	frozen  bool // nothing comes from it or reaches it any more
	gone    bool // and its connections have ended
}

// Addr is the address of the machine.
func (m *Machine) Addr() netip.Addr { return m.addr }

// Listen opens a port. Of the address only the port counts.
func (p *Process) Listen(_ context.Context, network, address string) (net.Listener, error) {
	m := p.machine
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	_, port, err := splitPort(address)
	if err == nil && p.gone {
		err = net.ErrClosed
	}
	if err == nil && m.ports[port] != nil {
		err = syscall.EADDRINUSE
	}
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	l := &listener{process: p, addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(m.addr, port)), port: port}
	l.waiting.L = &m.net.mu
	m.ports[port] = l
	return l, nil
}

// Dial connects to a port of a machine, given by name or address. It waits for as long as the link is
// cut, until ctx ends; so does everything that a process still dials when it is dead.
func (p *Process) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := p.dial(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return c, nil
}

func (p *Process) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := splitPort(address)
	if err != nil {
		return nil, err
	}
	n := p.machine.net
	n.watch(p, Traffic{To: host, Port: port})
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.moved.Broadcast()
	})
	defer stop()

	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to, err := n.lookup(host)
		if err != nil {
			return nil, err
		}
		if reaches := !p.frozen && !to.process.frozen && !n.cut[linkOf(p.machine, to)]; reaches {
			return p.connect(to, port)
		}
		n.moved.Wait()
	}
}

func (p *Process) connect(to *Machine, port uint16) (net.Conn, error) {
	l := to.ports[port]
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	near, far := p.machine.net.pair(p, l)
	l.accepted = append(l.accepted, far)
	l.waiting.Signal()
	return near, nil
}

func splitPort(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return host, uint16(n), err
}

// freeze stops everything between the process and the rest, at one moment and without a word to
// either: what it sends from now on is lost.
func (p *Process) freeze() {
	n := p.machine.net
	n.mu.Lock()
	defer n.mu.Unlock()
	p.frozen = true
}

// end ends a frozen process for good and makes room for the next one on its machine. Its peers are told
// by a reset, as the system of the machine would do it. A silent end is that of the machine too: it is
// off until boot, and the peers find out when they then send something.
func (p *Process) end(silent bool) {
	m := p.machine
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	p.gone = true
	for port, l := range m.ports {
		delete(m.ports, port)
		l.shut()
	}
	for c := range m.net.conns {
		if c.process == p {
			c.abandon(silent)
		}
	}
	m.process = &Process{machine: m, frozen: silent}
	m.net.moved.Broadcast()
}

// boot turns a machine on, if it is off.
func (m *Machine) boot() {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	m.process.frozen = false
	m.net.moved.Broadcast()
}

// listener is an open port.
type listener struct {
	process *Process
	addr    net.Addr
	port    uint16

	// Guarded by the network's lock.
	waiting  sync.Cond // wakes Accept
	accepted []*conn
	closed   bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	n := l.process.machine.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(l.accepted) == 0 && !l.closed {
		l.waiting.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.accepted[0]
	l.accepted = l.accepted[1:]
	return c, nil
}

// Close frees the port; connections that nobody has accepted are reset.
func (l *listener) Close() error {
	n := l.process.machine.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return nil
	}
	delete(l.process.machine.ports, l.port)
	for _, c := range l.accepted {
		c.reset()
	}
	l.shut()
	return nil
}

func (l *listener) shut() {
	l.closed, l.accepted = true, nil
	l.waiting.Broadcast()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

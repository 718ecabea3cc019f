package nodetest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how much may be on its way in one direction of a connection: who sends more waits until the
// other side has read.
const window = 64 << 10

// conn is one end of a connection. Everything in it but the first four fields is guarded by the
// network's lock.
type conn struct {
	net           *Network
	process       *Process
	local, remote netip.AddrPort
	answers       bool // it was accepted

	peer *conn
	cond sync.Cond // wakes whoever waits on this end

	in      []byte // what the peer has sent and this end has not read
	arrived int    // how much of it is here
	fin     bool   // the peer sends no more
	finHere bool   // and this end knows
	rst     bool   // the peer has reset the connection
	rstHere bool   // and this end knows

	closed, closedWrite bool
	readBy, writeBy     deadline
}

// pair makes a connection; the network's lock is held.
func (n *Network) pair(from *Process, to *listener) (near, far *conn) {
	n.dialled++
	local := netip.AddrPortFrom(from.machine.addr, uint16(1024+n.dialled%60000))
	remote := netip.AddrPortFrom(to.process.machine.addr, to.port)
	near = &conn{net: n, process: from, local: local, remote: remote}
	far = &conn{net: n, process: to.process, local: remote, remote: local, answers: true}
	near.peer, far.peer = far, near
	for _, c := range []*conn{near, far} {
		c.cond.L = &n.mu
		c.readBy.conn, c.writeBy.conn = c, c
		n.conns[c] = struct{}{}
	}
	return near, far
}

// deliver lets arrive at this end what is on its way, unless the link is cut.
func (c *conn) deliver() {
	if c.process.frozen || c.net.cut[linkOf(c.process.machine, c.peer.process.machine)] {
		return
	}
	c.arrived, c.finHere, c.rstHere = len(c.in), c.fin, c.rst
	if c.rstHere {
		c.in, c.arrived = nil, 0
		c.forget()
	}
	c.cond.Broadcast()
}

// forget takes the connection off the network's list once it is over for this end.
func (c *conn) forget() { delete(c.net.conns, c) }

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.failed("read", net.ErrClosed)
		case c.rstHere:
			return 0, c.failed("read", syscall.ECONNRESET)
		case c.readBy.over():
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case c.arrived > 0:
			n := copy(p, c.in[:c.arrived])
			c.in, c.arrived = c.in[n:], c.arrived-n
			c.peer.cond.Broadcast()
			return n, nil
		case c.finHere:
			return 0, io.EOF
		}
		c.cond.Wait()
	}
}

// Write implements net.Conn. It returns when everything is on its way.
func (c *conn) Write(p []byte) (int, error) {
	c.net.watch(c.process, Traffic{To: c.peer.process.machine.name, Port: c.port(), Data: p, Answer: c.answers})
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for sent := 0; ; {
		switch {
		case c.closed || c.closedWrite:
			return sent, c.failed("write", net.ErrClosed)
		case c.rstHere:
			return sent, c.failed("write", syscall.ECONNRESET)
		case c.writeBy.over():
			return sent, c.failed("write", os.ErrDeadlineExceeded)
		}
		room := min(window-len(c.peer.in), len(p)-sent)
		c.send(p[sent : sent+room])
		if sent += room; sent == len(p) {
			return sent, nil
		}
		c.cond.Wait()
	}
}

// send puts bytes on their way. What comes to an end that is closed, or whose process has gone while
// its machine is on, is answered by a reset.
func (c *conn) send(p []byte) {
	to := c.peer
	switch nobody := to.closed || to.process.gone; {
	case len(p) == 0, c.process.frozen: // lost
	case !nobody:
		to.in = append(to.in, p...)
		to.deliver()
	case to.process.machine.process.frozen: // lost
	default:
		c.rst = true
		c.deliver()
	}
}

// Close implements net.Conn. Like the system's, it resets the connection if something that has come was
// not read.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.close(c.arrived > 0)
	return nil
}

// CloseWrite says that nothing more will come.
func (c *conn) CloseWrite() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.closedWrite = true
	c.finish(false)
	return nil
}

// drain waits until the peer has read everything.
func (c *conn) drain() {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for len(c.peer.in) > 0 && !c.closed && !c.rstHere {
		c.cond.Wait()
	}
}

// Reset ends the connection at once for both sides.
func (c *conn) Reset() {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.reset()
}

// reset is Reset with the network's lock held.
func (c *conn) reset() { c.close(true) }

func (c *conn) close(reset bool) {
	if c.closed {
		return
	}
	c.drop()
	c.finish(reset)
}

// drop ends this end.
func (c *conn) drop() {
	c.closed = true
	c.in, c.arrived = nil, 0
	c.readBy.set(time.Time{})
	c.writeBy.set(time.Time{})
	c.forget()
	c.cond.Broadcast()
}

// finish tells the peer that nothing more will come.
func (c *conn) finish(reset bool) {
	if c.process.frozen {
		return
	}
	c.peer.fin, c.peer.rst = true, c.peer.rst || reset
	c.peer.deliver()
}

// abandon is what happens to the connection when its process ends.
func (c *conn) abandon(silent bool) {
	c.drop()
	if silent {
		c.peer.in = c.peer.in[:c.peer.arrived]
		return
	}
	c.peer.rst = true
	c.peer.deliver()
}

// port is the one that the accepting side listens on.
func (c *conn) port() uint16 {
	if c.answers {
		return c.local.Port()
	}
	return c.remote.Port()
}

func (c *conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr and RemoteAddr implement net.Conn.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr is the address of the other end.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline implements net.Conn, as do SetReadDeadline and SetWriteDeadline.
func (c *conn) SetDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

// SetReadDeadline bounds the reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.readBy.set(t)
	return nil
}

// SetWriteDeadline bounds the writes.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.writeBy.set(t)
	return nil
}

// deadline is when reads, or writes, of an end give up. It is guarded by the network's lock.
type deadline struct {
	conn  *conn
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(t time.Time) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 && !d.conn.closed {
		d.timer = time.AfterFunc(wait, d.wake)
	}
	d.conn.cond.Broadcast()
}

func (d *deadline) wake() {
	d.conn.net.mu.Lock()
	defer d.conn.net.mu.Unlock()
	d.conn.cond.Broadcast()
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

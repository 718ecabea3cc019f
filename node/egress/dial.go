package egress

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// dialer opens connections that the guard agrees with.
//
// mu guards conns and closed: with it, shut ends every connection, also one whose dial is under way.
type dialer struct {
	guard   *Guard
	inject  func(ctx context.Context, network, address string) (net.Conn, error) // nil: system is used
	system  net.Dialer
	timeout time.Duration // of one dial, name look-up included
	metrics *metrics

	life context.Context // ends the dials under way
	end  context.CancelFunc

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

func newDialer(cfg Config, guard *Guard, m *metrics) *dialer {
	d := &dialer{
		guard:   guard,
		inject:  cfg.Dial,
		timeout: cfg.DialTimeout,
		metrics: m,
		conns:   make(map[*conn]struct{}),
		system: net.Dialer{
			Resolver: cfg.Resolver,
			// A peer that is gone without a word is found out within half a minute, so that no
			// attempt waits for it for ever.
			KeepAliveConfig: net.KeepAliveConfig{
				Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
			},
		},
	}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// dial connects to address, which is host:port. Its error is a *BlockedError or of package net.
func (d *dialer) dial(ctx context.Context, network, address string) (*conn, error) {
	c, err := d.connect(ctx, network, address)
	if err != nil && d.life.Err() != nil {
		err = net.ErrClosed // which is why, whatever the connection was told
	}
	if err != nil {
		if blocked, ok := errors.AsType[*BlockedError](err); ok {
			d.metrics.dials.WithLabelValues(dialBlocked).Inc()
			return nil, blocked
		}
		d.metrics.dials.WithLabelValues(dialFailed).Inc()
		if _, ok := errors.AsType[*net.OpError](err); !ok {
			err = &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return nil, err
	}
	d.metrics.dials.WithLabelValues(dialOK).Inc()
	return d.keep(c)
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	to, exempt, err := d.guard.resolve(host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	stop := context.AfterFunc(d.life, cancel)
	defer stop()

	address = net.JoinHostPort(to, port)
	switch {
	case d.inject != nil:
		return d.connectInjected(ctx, network, address, exempt)
	case exempt:
		return d.system.DialContext(ctx, network, address)
	default:
		return d.connectGuarded(ctx, network, address)
	}
}

// connectGuarded checks every address of the host before it tries the first, and each again right
// before it connects.
func (d *dialer) connectGuarded(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSDone: func(found httptrace.DNSDoneInfo) {
		for _, ip := range found.Addrs {
			if addr, ok := netip.AddrFromSlice(ip.IP); ok {
				if err := d.guard.check(host, addr); err != nil {
					cancel(err)
					return
				}
			}
		}
	}})
	system := d.system
	system.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return d.guard.check(host, to.Addr())
	}
	c, err := system.DialContext(ctx, network, address)
	if blocked, ok := errors.AsType[*BlockedError](context.Cause(ctx)); err != nil && ok {
		return nil, blocked
	}
	return c, err
}

// connectInjected asks the injected dialer, which resolves names itself. What it connected to is
// checked if it says so.
func (d *dialer) connectInjected(ctx context.Context, network, address string, exempt bool) (net.Conn, error) {
	c, err := d.inject(ctx, network, address)
	if err != nil || exempt {
		return c, err
	}
	host, _, _ := net.SplitHostPort(address)
	// An in-memory network may have addresses of another kind.
	if remote, perr := netip.ParseAddrPort(c.RemoteAddr().String()); perr == nil {
		err = d.guard.check(host, remote.Addr())
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// keep makes c one of the connections that shut ends.
func (d *dialer) keep(nc net.Conn) (*conn, error) {
	c := &conn{Conn: nc, dialer: d, born: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(net.ErrClosed, nc.Close())
	}
	d.conns[c] = struct{}{}
	d.metrics.connections.Inc()
	return c, nil
}

func (d *dialer) drop(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.conns[c]; ok {
		delete(d.conns, c)
		d.metrics.connections.Dec()
	}
}

// shut ends every connection and every dial, for good.
func (d *dialer) shut() {
	d.end()
	d.mu.Lock()
	d.closed = true
	open := make([]*conn, 0, len(d.conns))
	for c := range d.conns {
		open = append(open, c)
	}
	d.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // its owner is told by its own reads and writes
	}
}

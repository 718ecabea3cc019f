package registry_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// network is an in-memory network. Its hosts have addresses, as a control plane tells nodes apart by
// where they call from.
type network struct {
	mu    sync.Mutex
	doors map[string]*door // by host:port
}

func newNetwork() *network { return &network{doors: make(map[string]*door)} }

// door is a listener.
type door struct {
	accepted chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.accepted:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.close.Do(func() { close(d.closed) })
	return nil
}

func (d *door) Addr() net.Addr { return &net.TCPAddr{} }

// end is the server's end of a connection.
type end struct {
	net.Conn
	remote net.Addr
}

func (e end) RemoteAddr() net.Addr { return e.remote }

// serve serves HTTP at an address until the returned function is called, or the test ends.
func (n *network) serve(t *testing.T, address string, h http.Handler) (stop func()) {
	t.Helper()
	d := &door{accepted: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	n.doors[address] = d
	n.mu.Unlock()
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(d) })
	stop = func() {
		n.mu.Lock()
		if n.doors[address] == d {
			delete(n.doors, address)
		}
		n.mu.Unlock()
		_ = srv.Close()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// transport is the way out of a host.
func (n *network) transport(t *testing.T, ip string) *http.Transport {
	t.Helper()
	from := &net.TCPAddr{IP: net.ParseIP(ip), Port: 40000}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		d := n.doors[address]
		n.mu.Unlock()
		if d == nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		near, far := net.Pipe()
		select {
		case d.accepted <- end{far, from}:
			return near, nil
		case <-d.closed:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

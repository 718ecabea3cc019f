package main

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// door is an address at which others reach a place: it finds out who calls, and puts the link between
// the two into the connection. It is closed while nobody is behind it, so that callers are refused as they
// would be without it.
type door struct {
	addr   string // host:port of the door
	behind string // host:port of what it leads to
	to     place
	net    *network
	who    func(net.Conn) (place, bool)

	// mu guards ln.
	mu sync.Mutex
	ln net.Listener
}

// open lets callers in. It does nothing if the door is open.
func (d *door) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ln != nil {
		return nil
	}
	ln, err := listen(d.addr)
	if err != nil {
		return fmt.Errorf("door of %s: %w", d.to, err)
	}
	d.ln = ln
	go d.serve(ln)
	return nil
}

// close refuses callers; connections that are there stay.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ln != nil {
		d.ln.Close()
		d.ln = nil
	}
}

func (d *door) serve(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil { // closed
			return
		}
		go d.admit(c)
	}
}

func (d *door) admit(c net.Conn) {
	from, known := d.who(c)
	if !known { // it has gone meanwhile, or is none of ours
		c.Close()
		return
	}
	var dialer net.Dialer
	behind, err := dialer.DialContext(context.Background(), "tcp", d.behind)
	if err != nil {
		c.Close()
		return
	}
	d.net.link(from, d.to).join(c, behind)
}

// always is who calls at a door that only one place knows.
func always(p place) func(net.Conn) (place, bool) {
	return func(net.Conn) (place, bool) { return p, true }
}

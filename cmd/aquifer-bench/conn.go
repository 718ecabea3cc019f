package main

import (
	"bufio"
	"context"
	"net"
	"time"
)

// dialTimeout bounds a connection on the loopback interface.
const dialTimeout = 5 * time.Second

// conn is one connection to the dispatcher, opened when it is needed. One goroutine owns it. It does
// not repeat a request: whether that is right only its user knows.
type conn struct {
	addr string
	nc   net.Conn
	in   *bufio.Reader
	stop func() bool
	got  message
}

// exchange sends a request and reads its answer, which is valid until the next call. When ctx ends
// the connection breaks. After an error the next call opens a new one.
func (c *conn) exchange(ctx context.Context, request []byte) (*message, error) {
	if c.nc == nil {
		if err := c.open(ctx); err != nil {
			return nil, err
		}
	}
	_, err := c.nc.Write(request)
	if err == nil {
		err = c.got.read(c.in)
	}
	if err != nil || c.got.last {
		c.close()
	}
	return &c.got, err
}

func (c *conn) open(ctx context.Context) error {
	d := net.Dialer{Timeout: dialTimeout}
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.nc, c.in = nc, bufio.NewReader(nc)
	c.stop = context.AfterFunc(ctx, func() { nc.Close() })
	return nil
}

func (c *conn) close() {
	if c.nc == nil {
		return
	}
	c.stop()
	c.nc.Close()
	c.nc = nil
}

package egress

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// conn is a connection that knows how much went through it, by which an attempt tells whether its
// request may have been read, and whether the other side is still alive.
type conn struct {
	net.Conn
	dialer *dialer
	born   time.Time

	sent     atomic.Int64 // bytes written, or being written
	received atomic.Int64 // bytes read
	heard    atomic.Int64 // when something was read last, in ns since born
	broke    atomic.Bool  // a read failed other than by an orderly end
}

// Read counts what came, and remembers if the connection broke.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.received.Add(int64(n))
		c.heard.Store(int64(time.Since(c.born)))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.broke.Store(true)
	}
	return n, err
}

// Write counts what went. It counts first and takes back what did not go, because the answer may be
// here before the write has returned.
func (c *conn) Write(p []byte) (int, error) {
	c.sent.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	if n < len(p) {
		c.sent.Add(int64(n - len(p)))
	}
	return n, err
}

// Close ends the connection.
func (c *conn) Close() error {
	c.dialer.drop(c)
	return c.Conn.Close()
}

// silence is for how long nothing has come.
func (c *conn) silence() time.Duration {
	return time.Since(c.born) - time.Duration(c.heard.Load())
}

package egress

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"
)

// script is a connection to a target that answers whatever it is sent with the same bytes, some at a
// time, and then closes the connection. It says nothing before it was asked.
type script struct {
	step int

	asked  chan struct{} // closed by the first write
	closed chan struct{}
	once   sync.Once
	ending sync.Once
	mu     sync.Mutex // guards left
	left   []byte
}

func (s *script) Read(p []byte) (int, error) {
	select {
	case <-s.asked:
	case <-s.closed:
		return 0, net.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.left[:min(s.step, len(s.left))])
	s.left = s.left[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	return len(p), nil
}

func (s *script) Close() error                     { s.ending.Do(func() { close(s.closed) }); return nil }
func (s *script) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "script"} }
func (s *script) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "script"} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// understood is how a path understands an answer.
type understood struct {
	Status    int
	Header    http.Header
	Body      string
	Truncated bool
	Cause     string // "" for none
	Sent      bool
}

func understand(t *testing.T, r Request, limit int64, do func(Request) (*http.Response, error)) (u understood) {
	resp, err := do(r)
	if err == nil {
		var body []byte
		u.Status, u.Header = resp.StatusCode, resp.Header
		body, u.Truncated, err = ReadBody(resp, limit, nil)
		u.Body = string(body)
	}
	if err != nil {
		e := failure(t, err)
		return understood{Cause: e.Cause.String(), Sent: e.Sent}
	}
	return u
}

// FuzzExchange holds that any bytes mean the same on both paths: the same answer, or the same cause of
// there being none. An answer of an announced length has it.
func FuzzExchange(f *testing.F) {
	for _, s := range []string{
		okAnswer, "HTTP/1.1 200 OK\r\n\r\nto the end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 20", "", "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", "HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n", okAnswer + okAnswer,
		"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nx", "HTTP/1.1 200 OK\r\n a: b\r\n\r\n", "HTTP/1.1 200 OK\nX: y\n\nok",
	} {
		f.Add([]byte(s), uint8(0), uint16(4096), int16(-1))
		f.Add([]byte(s), uint8(1), uint16(1), int16(3))
	}
	methods := []string{http.MethodPost, http.MethodHead, http.MethodGet, http.MethodDelete}
	f.Fuzz(func(t *testing.T, answer []byte, method uint8, step uint16, limit int16) {
		c, err := New(Config{ResponseHeaderBytes: 1 << 10, Dial: func(context.Context, string, string) (net.Conn, error) {
			return &script{step: int(step) + 1, left: bytes.Clone(answer), asked: make(chan struct{}), closed: make(chan struct{})}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r := request(methods[int(method)%len(methods)], "http://script.test/", "payload")
		over := understand(t, r, int64(limit), func(r Request) (*http.Response, error) { return c.Do(t.Context(), r) })
		through := understand(t, r, int64(limit), func(r Request) (*http.Response, error) { return doThrough(t.Context(), c, r) })
		if !reflect.DeepEqual(over, through) {
			t.Fatalf("%q is\n%+v over a link, and\n%+v through the transport", answer, over, through)
		}
		length, err := strconv.Atoi(over.Header.Get("Content-Length"))
		switch {
		case over.Status == 0, over.Truncated, r.Method == http.MethodHead, over.Status == http.StatusNoContent, over.Status == http.StatusNotModified:
		case err == nil && length != len(over.Body):
			t.Fatalf("%q is an answer of %d bytes", answer, len(over.Body))
		}
	})
}

// doThrough is Do by way of the transport.
func doThrough(ctx context.Context, c *Client, r Request) (*http.Response, error) {
	u, err := r.target()
	if err != nil {
		return nil, err
	}
	a := begin(ctx, c, r, u)
	a.via = c.routes.to(u.Host)
	resp, err := a.roundTrip()
	if err != nil {
		return nil, a.fail(err)
	}
	return resp, nil
}

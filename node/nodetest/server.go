package nodetest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Request is a request as a Server got it.
type Request struct {
	At         time.Time // when its head was read
	N          int       // how many requests the server had got with this one
	Conn       int       // the connection that brought it, from 1
	Method     string
	Path       string // with the query
	Host       string
	Header     http.Header
	Body       []byte
	AnsweredAt time.Time // when its answer began; zero while there is none
}

// Server is an HTTP server that does what it is told and remembers what it was sent. Until it is told
// otherwise it answers 200. Its methods are safe for concurrent use.
type Server struct {
	Machine *Machine
	// Address is host:port.
	Address string

	mu       sync.Mutex // guards all below
	answer   func(Request) Reply
	requests []*Request
	open     int // requests that are not answered
	most     int
	listener net.Listener // nil: nobody listens
	stop     context.CancelFunc
	conns    map[*conn]*idle
	accepted int

	running sync.WaitGroup
}

// idle says whether a connection waits for a request. The server's lock guards it.
type idle struct{ now bool }

// NewServer starts a server on a machine.
func NewServer(m *Machine, port string) *Server {
	s := &Server{
		Machine: m, Address: net.JoinHostPort(m.name, port), conns: make(map[*conn]*idle),
		answer: func(Request) Reply { return Reply{} },
	}
	s.Start()
	return s
}

// URL is the address of a path on the server.
func (s *Server) URL(path string) string { return "http://" + s.Address + path }

// Answer has f say what to do with each request. Calls of f may come at the same time.
func (s *Server) Answer(f func(Request) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Reply gives the next requests these replies, in the order in which they come, and the last one to all
// that follow.
func (s *Server) Reply(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := len(s.requests) + 1
	s.answer = func(r Request) Reply { return replies[min(r.N-first, len(replies)-1)] }
}

// Requests returns what came, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Request, len(s.requests))
	for i, r := range s.requests {
		list[i] = *r
	}
	return list
}

// Open is how many requests have come and are neither answered nor over.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// MostOpen is how many there ever were at a time.
func (s *Server) MostOpen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// CloseIdle closes the connections that wait for a request.
func (s *Server) CloseIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, idle := range s.conns {
		if idle.now {
			_ = c.Close()
		}
	}
}

// Start listens again after Stop.
func (s *Server) Start() {
	_, port, _ := net.SplitHostPort(s.Address)
	l, err := s.Machine.Process().Listen(context.Background(), "tcp", ":"+port)
	if err != nil {
		return // it is listening
	}
	ctx, stop := context.WithCancel(context.Background())
	s.mu.Lock()
	s.listener, s.stop = l, stop
	s.mu.Unlock()
	s.running.Go(func() { s.accept(ctx, l) })
}

// Stop resets all connections; new ones are refused. It returns when the server has ended.
func (s *Server) Stop() {
	s.mu.Lock()
	l := s.listener
	if s.listener = nil; l != nil {
		s.stop()
		_ = l.Close()
	}
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.Reset()
	}
	s.running.Wait()
}

func (s *Server) accept(ctx context.Context, l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		c := nc.(*conn)
		idle := &idle{now: true}
		s.mu.Lock()
		s.conns[c] = idle
		s.accepted++
		x := &exchange{server: s, ctx: ctx, conn: c, n: s.accepted, idle: idle, r: bufio.NewReader(c)}
		s.mu.Unlock()
		s.running.Go(x.run)
	}
}

// exchange is one connection of a server. The goroutine of run owns it.
type exchange struct {
	server *Server
	ctx    context.Context
	conn   *conn
	n      int
	idle   *idle
	r      *bufio.Reader
}

func (x *exchange) run() {
	defer func() {
		x.server.mu.Lock()
		delete(x.server.conns, x.conn)
		x.server.mu.Unlock()
		_ = x.conn.Close()
	}()
	for x.serve() {
	}
}

// serve takes one request and reports whether the connection goes on.
func (x *exchange) serve() (goOn bool) {
	if _, err := x.r.Peek(1); err != nil {
		return false
	}
	req, body, err := x.read()
	if err != nil {
		return false
	}
	r, answer := x.note(req, body)
	reply := answer(*r)
	if !x.pause(reply.wait) {
		x.done(r, false)
		return false
	}
	if reply.ending != hangs {
		x.done(r, true)
	}
	if !x.send(reply) {
		return false
	}
	x.setIdle(true)
	switch reply.ending {
	case keeps:
		return !req.Close
	case hangs:
		_, _ = io.Copy(io.Discard, x.conn)
		x.done(r, false)
	case resets:
		x.conn.drain() // a reset overtakes what was not read
		x.conn.Reset()
	case closesNext:
		_, _ = x.r.Peek(1)
	}
	return false
}

func (x *exchange) read() (*http.Request, []byte, error) {
	x.setIdle(false)
	req, err := http.ReadRequest(x.r)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(req.Body)
	return req, body, err
}

func (x *exchange) setIdle(now bool) {
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	x.idle.now = now
}

// note remembers a request, and returns who says what to do with it.
func (x *exchange) note(req *http.Request, body []byte) (*Request, func(Request) Reply) {
	s := x.server
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Request{
		At: time.Now(), N: len(s.requests) + 1, Conn: x.n, Method: req.Method, Path: req.RequestURI, Host: req.Host,
		Header: req.Header, Body: body,
	}
	s.requests = append(s.requests, r)
	s.open++
	s.most = max(s.most, s.open)
	return r, s.answer
}

// done says that a request is not open any more. That is before its answer is sent: the next request may
// come as soon as that is read.
func (x *exchange) done(r *Request, answered bool) {
	s := x.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if answered {
		r.AnsweredAt = time.Now()
	}
}

func (x *exchange) send(r Reply) bool {
	text := r.bytes()
	if r.pause == 0 {
		_, err := io.WriteString(x.conn, text)
		return err == nil
	}
	for i := range len(text) {
		if !x.pause(r.pause) {
			return false
		}
		if _, err := io.WriteString(x.conn, text[i:i+1]); err != nil {
			return false
		}
	}
	return true
}

// pause waits, and reports whether the server still runs.
func (x *exchange) pause(d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-x.ctx.Done():
		return false
	}
}

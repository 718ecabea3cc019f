package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// InProcess returns a transport that calls a handler without a socket. An answer streams: each write
// of the handler waits until the client has read it, so deadlines, and clients that stop reading,
// work as they do on a connection.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper. The handler's context ends with that of the request, and
// when the body of the answer is closed.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	near, far := net.Pipe()
	a := &answer{header: make(http.Header), conn: far, started: make(chan struct{})}
	// Frees a handler that is writing, and a client that is reading.
	released := context.AfterFunc(ctx, func() { _ = near.Close() })
	go func() {
		a.serve(t.handler, incoming(ctx, req))
		released()
		_ = far.Close()
		cancel()
	}()
	select {
	case <-a.started:
	case <-ctx.Done():
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		<-a.started // the handler is just done
	}
	if a.status == 0 {
		return nil, a.broken
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, Body: &answerBody{answer: a, conn: near, ctx: ctx, cancel: cancel}, ContentLength: -1, Request: req,
	}, nil
}

// incoming is the request as a server would see it.
func incoming(ctx context.Context, req *http.Request) *http.Request {
	r := req.Clone(ctx)
	r.RequestURI = req.URL.RequestURI()
	r.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	r.RemoteAddr = "in-process"
	if r.Host == "" {
		r.Host = req.URL.Host
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	return r
}

// answer is what the handler writes to. It belongs to the handler's goroutine; the client reads
// status and sent once started is closed, and broken once the connection is.
type answer struct {
	header  http.Header
	conn    net.Conn
	once    sync.Once
	started chan struct{}
	status  int         // 0: the handler broke before it answered
	sent    http.Header // as they were when the answer started
	broken  error       // the handler's panic
}

func (a *answer) serve(h http.Handler, r *http.Request) {
	defer func() {
		if v := recover(); v != nil { // as a server does: one request must not end the process
			a.broken = fmt.Errorf("handler panicked: %v", v)
			a.start(0)
		}
	}()
	h.ServeHTTP(a, r)
	a.start(http.StatusOK)
	_ = r.Body.Close()
}

func (a *answer) start(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.started)
	})
}

// Header implements http.ResponseWriter, as do WriteHeader and Write.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader starts the answer.
func (a *answer) WriteHeader(status int) { a.start(status) }

// Write returns when the client has read all of p.
func (a *answer) Write(p []byte) (int, error) {
	a.start(http.StatusOK)
	return a.conn.Write(p)
}

// FlushError is found by http.ResponseController, as is SetWriteDeadline. Every write is flushed.
func (a *answer) FlushError() error {
	a.start(http.StatusOK)
	return nil
}

// SetWriteDeadline bounds the writes.
func (a *answer) SetWriteDeadline(t time.Time) error { return a.conn.SetWriteDeadline(t) }

// answerBody is the body of an answer as the client reads it.
type answerBody struct {
	answer *answer
	conn   net.Conn
	ctx    context.Context
	cancel context.CancelFunc
}

// Read returns what the handler writes, as soon as it does.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.conn.Read(p)
	switch {
	case errors.Is(err, io.EOF) && b.answer.broken != nil:
		err = b.answer.broken
	case errors.Is(err, io.ErrClosedPipe) && b.ctx.Err() != nil:
		err = b.ctx.Err()
	}
	return n, err
}

// Close ends the handler's context.
func (b *answerBody) Close() error {
	b.cancel()
	return b.conn.Close()
}

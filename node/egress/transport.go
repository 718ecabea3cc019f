package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// HTTP/2 connections are asked for a sign of life when nothing came for a while: with a lower value
// a dead one is found sooner, but targets that count pings may close the connection.
const (
	pingAfter   = 15 * time.Second
	pingTimeout = 15 * time.Second
)

const (
	writeBufferBytes = 4 << 10
	readBufferBytes  = 4 << 10
)

func newTransport(cfg Config, d *dialer) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy: refuseSecondSend,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := d.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		TLSClientConfig:        tlsConfig(cfg.TLS),
		TLSHandshakeTimeout:    cfg.DialTimeout,
		DisableCompression:     true,
		MaxIdleConns:           cfg.MaxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: cfg.ResponseHeaderBytes,
		WriteBufferSize:        writeBufferBytes,
		ReadBufferSize:         readBufferBytes,
		Protocols:              &protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

func tlsConfig(base *tls.Config) *tls.Config {
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return base.Clone()
}

// trip is an attempt on its way through the transport. It is a context, so that the transport carries
// it along.
type trip struct {
	context.Context
	attempt *attempt
	trace   httptrace.ClientTrace
}

type tripKey struct{}

// Value makes the trip known to those who have only the request.
func (t *trip) Value(key any) any {
	if key == (tripKey{}) {
		return t
	}
	return t.Context.Value(key)
}

func (t *trip) gotConn(info httptrace.GotConnInfo) {
	a, under := t.attempt, info.Conn
	if secure, ok := under.(*tls.Conn); ok {
		a.tls, under = secure, secure.NetConn()
	}
	if c, ok := under.(*conn); ok {
		a.use(c, info.Reused)
	}
}

// roundTrip sends the request through the transport. A kept connection that turns out to be closed
// before anything was written is no failure: the next one is taken, a new one at last. The transport
// does so itself unless the body is larger than its buffer.
func (a *attempt) roundTrip() (*http.Response, error) {
	header, err := a.request.header()
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.Context, context.CancelFunc(func() {})
	if !a.deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, a.deadline)
	}
	t := &trip{Context: ctx, attempt: a}
	t.trace.GotConn = t.gotConn
	traced := httptrace.WithClientTrace(t, &t.trace)
	for {
		a.asked = false
		a.forget()
		resp, err := a.via.RoundTrip(a.httpRequest(header).WithContext(traced))
		switch {
		case err == nil && resp.StatusCode < http.StatusOK:
			err = errors.Join(errStatus, resp.Body.Close())
			cancel()
			return nil, err
		case err == nil:
			resp.Body = a.stream(resp.Body, cancel)
			return resp, nil
		case !a.reused || a.wrote() || a.over() != nil || a.http2():
			cancel()
			return nil, err
		}
	}
}

func (a *attempt) httpRequest(header http.Header) *http.Request {
	r := &http.Request{
		Method: a.request.Method, URL: a.url, Host: a.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	if len(a.request.Body) > 0 {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.request.Body)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(a.request.Body))
	}
	return r
}

var errUnanswered = errors.New("the connection was closed before an answer came")

// refuseSecondSend stands where the transport asks for a proxy before it sends a request, which it
// also does before it sends one again on its own. That is no harm if nothing was written. If
// something was, the target may have acted on it, and only safe methods may go again, once, whatever else
// the transport takes for a licence, such as an Idempotency-Key header.
func refuseSecondSend(req *http.Request) (*url.URL, error) {
	t, ok := req.Context().Value(tripKey{}).(*trip)
	if !ok {
		return nil, nil
	}
	a := t.attempt
	a.asked = true
	if a.wrote() && !a.mayGoAgain() {
		return nil, errUnanswered
	}
	a.forget()
	return nil, nil
}

func (a *attempt) stream(body io.ReadCloser, cancel context.CancelFunc) io.ReadCloser {
	s := &stream{ReadCloser: body, attempt: a, cancel: cancel}
	if body != http.NoBody && a.request.Method != http.MethodHead {
		return s
	}
	_ = s.Close() // there is nothing to read
	return http.NoBody
}

// stream is the body of an answer that comes through the transport.
type stream struct {
	io.ReadCloser
	attempt *attempt
	cancel  context.CancelFunc
}

// Read returns an *Error if the rest cannot be read.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		err = s.attempt.failBody(err)
	}
	return n, err
}

// Close ends the exchange.
func (s *stream) Close() error {
	err := s.ReadCloser.Close()
	s.cancel()
	return err
}

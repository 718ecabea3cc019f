package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// attempt is one call of Do: it sees which connection the request got, and what went through it. It
// is a context, so that the transport carries it along. Only the goroutine that called Do uses it.
type attempt struct {
	context.Context
	client *Client
	traced context.Context // the attempt with its trace, for requests
	trace  httptrace.ClientTrace
	start  time.Time

	via     *http.Transport // that the request went through last
	host    string          // of the request's URL
	asked   bool            // the request was in order, and a connection was asked for
	got     net.Conn        // the connection that the request got; nil before it has one
	conn    *conn           // the one of ours beneath got
	reused  bool
	sent    int64 // conn.sent when the request got it
	heard   int64 // conn.received when the request got it
	earlier bool  // the request, or one before a redirect, went out on another connection before
}

type attemptKey struct{}

// begin returns the attempt for a call with the context ctx.
func begin(ctx context.Context, c *Client) *attempt {
	a := &attempt{Context: ctx, client: c, start: time.Now()}
	a.trace.GotConn = a.gotConn
	a.traced = httptrace.WithClientTrace(a, &a.trace)
	return a
}

// Value makes the attempt known to those who have only the request.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.got, a.reused = info.Conn, info.Reused
	under := info.Conn
	if t, ok := under.(*tls.Conn); ok {
		under = t.NetConn()
	}
	if a.conn, _ = under.(*conn); a.conn != nil {
		a.sent, a.heard = a.conn.sent.Load(), a.conn.received.Load()
	}
}

// send makes one request of the attempt. A kept connection that turns out to be closed before
// anything was written is no failure: the next one is taken, a new one at last. The transport does
// so itself unless the body is larger than its buffer.
func (a *attempt) send(req *http.Request) (*http.Response, error) {
	a.earlier = a.earlier || a.conn != nil
	a.via, a.host = a.client.routes.to(req.URL.Host), req.URL.Host
	for {
		a.asked = false
		a.forget()
		resp, err := a.via.RoundTrip(req.WithContext(a.traced))
		if err == nil || !a.reused || a.wrote() || a.Err() != nil || a.http2() {
			return resp, err
		}
		again := *req
		if req = withBody(&again, req); req == nil {
			return nil, err
		}
	}
}

// wrote reports whether bytes went out on the connection since the request got it. On a shared
// HTTP/2 connection they may be those of another request.
func (a *attempt) wrote() bool { return a.conn != nil && a.conn.sent.Load() > a.sent }

// answered reports whether bytes came in on the connection since the request got it.
func (a *attempt) answered() bool { return a.conn != nil && a.conn.received.Load() > a.heard }

func (a *attempt) http2() bool {
	t, ok := a.got.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}

// forget makes the attempt one that has no connection.
func (a *attempt) forget() { a.got, a.conn, a.reused = nil, nil, false }

var errSentBefore = errors.New("the connection was closed before an answer came, after the request was written")

// refuseSecondSend stands where the transport asks for a proxy before it sends a request, which it
// also does before it sends one again on its own. That is no harm if nothing was written. If
// something was, the target may have acted on it, and only safe methods (RFC 9110, 9.2.1) may go
// again, whatever else the transport takes for a licence, such as an Idempotency-Key header.
func refuseSecondSend(req *http.Request) (*url.URL, error) {
	a, ok := req.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, nil
	}
	a.asked = true
	if a.wrote() {
		switch req.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			a.earlier = true
		default:
			return nil, errSentBefore
		}
	}
	a.forget()
	return nil, nil
}

// fail makes the attempt's error of what the transport, or the body's reader, returned.
func (a *attempt) fail(err error) *Error {
	e := &Error{Cause: a.cause(err), Sent: a.earlier || a.wrote(), Err: err}
	a.suspect(e.Cause)
	return e
}

// silentFor is the time without a sign of life after which a connection is no longer trusted.
const silentFor = 5 * time.Second

// suspect leaves the host's connections if they look dead: the request timed out on one that others
// may use next, and nothing came for silentFor, or for the whole attempt if that was shorter.
func (a *attempt) suspect(cause Cause) {
	shared := a.conn != nil && (a.reused || a.http2())
	if cause == Timeout && shared && a.conn.silence() >= min(silentFor, time.Since(a.start)) {
		a.client.routes.leave(a.host, a.via)
	}
}

// failBody makes the attempt's error of what the body's reader returned. There was an answer, so the
// target has read the request.
func (a *attempt) failBody(err error) *Error {
	e := &Error{Cause: a.causeBody(err), Sent: true, Err: err}
	a.suspect(e.Cause)
	return e
}

// attemptOf returns the attempt that an answer belongs to.
func attemptOf(resp *http.Response) *attempt {
	if a, ok := resp.Request.Context().Value(attemptKey{}).(*attempt); ok {
		return a
	}
	return &attempt{Context: resp.Request.Context()} // not an answer of Do
}

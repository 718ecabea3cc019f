package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// attempt is one call of Do: it knows which connection the request got, and what went through it. Only
// the goroutine that uses the answer touches it.
type attempt struct {
	context.Context // the caller's
	client          *Client
	request         Request  // the one that follows the last redirect
	url             *url.URL // where it goes
	start           time.Time
	deadline        time.Time // the request's or the context's, whichever is first; zero for none

	via     *http.Transport // that the request goes through; nil over a link
	asked   bool            // the request was in order, and a connection was asked for
	conn    *conn           // that the request got; nil before it has one
	tls     *tls.Conn       // over it, if it is secure
	reused  bool
	sent    int64 // conn.sent when the request got it
	heard   int64 // conn.received when the request got it
	earlier bool  // the request, or one before a redirect, went out on another connection before
	again   bool  // the request itself did
}

func begin(ctx context.Context, c *Client, r Request, u *url.URL) *attempt {
	a := &attempt{Context: ctx, client: c, request: r, url: u, start: time.Now(), deadline: r.Deadline}
	if end, ok := ctx.Deadline(); ok && (a.deadline.IsZero() || end.Before(a.deadline)) {
		a.deadline = end
	}
	return a
}

// send makes one request of the attempt.
func (a *attempt) send() (*http.Response, error) {
	a.earlier = a.earlier || a.conn != nil
	a.asked, a.again = false, false
	a.forget()
	if address := plainAddress(a.url); address != "" {
		a.via = nil
		return a.exchange(address)
	}
	a.via = a.client.routes.to(a.url.Host)
	return a.roundTrip()
}

// mayGoAgain reports whether a request that was written may be written once more, and notes it: a target that closes what
// it has read gets it no more often.
func (a *attempt) mayGoAgain() bool {
	if a.again || !safe(a.request.Method) {
		return false
	}
	a.earlier, a.again = true, true
	return true
}

// use makes c the connection of the request.
func (a *attempt) use(c *conn, reused bool) {
	a.conn, a.reused = c, reused
	a.sent, a.heard = c.sent.Load(), c.received.Load()
}

// forget makes the attempt one that has no connection.
func (a *attempt) forget() { a.conn, a.tls, a.reused = nil, nil, false }

// wrote reports whether bytes went out on the connection since the request got it. On a shared
// HTTP/2 connection they may be those of another request.
func (a *attempt) wrote() bool { return a.conn != nil && a.conn.sent.Load() > a.sent }

// answered reports whether bytes came in on the connection since the request got it.
func (a *attempt) answered() bool { return a.conn != nil && a.conn.received.Load() > a.heard }

func (a *attempt) http2() bool {
	return a.tls != nil && a.tls.ConnectionState().NegotiatedProtocol == "h2"
}

// over returns why the attempt has to end; nil while it need not.
func (a *attempt) over() error {
	switch {
	case a.Err() != nil:
		return a.Err()
	case !a.deadline.IsZero() && !time.Now().Before(a.deadline):
		return context.DeadlineExceeded
	case a.client.dialer.life.Err() != nil:
		return net.ErrClosed
	default:
		return nil
	}
}

// why returns the reason behind an error: over a link, the end of the attempt shows only as what it did
// to the connection.
func (a *attempt) why(err error) error {
	if a.via != nil {
		return err
	}
	over := a.over()
	switch {
	case is[*BlockedError](err):
		return err
	case a.Err() != nil:
		return context.Cause(a)
	case over != nil:
		return over
	case a.conn != nil && errors.Is(err, os.ErrDeadlineExceeded): // its clock may be a little ahead
		return context.DeadlineExceeded
	default:
		return err
	}
}

// fail makes the attempt's error of what send returned.
func (a *attempt) fail(err error) *Error {
	e := &Error{Cause: a.cause(err), Sent: a.earlier || a.wrote(), Err: a.why(err)}
	a.suspect(e.Cause)
	return e
}

// failBody makes the attempt's error of what the body's reader returned. There was an answer, so the
// target has read the request.
func (a *attempt) failBody(err error) *Error {
	e := &Error{Cause: a.causeBody(err), Sent: true, Err: a.why(err)}
	a.suspect(e.Cause)
	return e
}

// silentFor is the time without a sign of life after which a connection is no longer trusted.
const silentFor = 5 * time.Second

// suspect leaves the host's connections if they look dead: the request timed out on one that others
// may use next, or that has neighbours of its age, and nothing came for silentFor, or for the whole
// attempt if that was shorter.
func (a *attempt) suspect(cause Cause) {
	shared := a.conn != nil && (a.reused || a.http2())
	if cause != Timeout || !shared || a.conn.silence() < min(silentFor, time.Since(a.start)) {
		return
	}
	if a.via == nil {
		a.client.links.leave(plainAddress(a.url))
	} else {
		a.client.routes.leave(a.url.Host, a.via)
	}
}

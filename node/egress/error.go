package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Cause says why a request brought no whole answer. The set is closed.
type Cause uint8

// The causes. The zero Cause is a request that could not be sent, which is a fault of the caller.
const (
	Unsendable     Cause = iota // the request itself is not in order
	Blocked                     // the guard refused the address
	DNS                         // the name did not resolve
	Refused                     // nobody listens there, or there is no way there
	ConnectTimeout              // no connection in time
	TLS                         // no secure connection
	Timeout                     // connected, but no whole answer in time
	Reset                       // the connection broke
	Closed                      // the connection was closed before the first byte of an answer
	Truncated                   // the answer ended before its announced end
	HeaderTooLarge              // the answer's header is over the limit
	Protocol                    // the answer is not HTTP
	Canceled                    // the request's context was cancelled, or the client closed
)

var causes = [...]string{
	Unsendable: "unsendable", Blocked: "blocked", DNS: "dns", Refused: "refused", ConnectTimeout: "connect_timeout",
	TLS: "tls", Timeout: "timeout", Reset: "reset", Closed: "closed", Truncated: "truncated",
	HeaderTooLarge: "header_too_large", Protocol: "protocol", Canceled: "canceled",
}

// Causes lists every cause.
func Causes() []Cause {
	list := make([]Cause, len(causes))
	for i := range list {
		list[i] = Cause(i)
	}
	return list
}

// String returns the cause's name in logs.
func (c Cause) String() string {
	if int(c) < len(causes) {
		return causes[c]
	}
	return "unknown"
}

// Error is why a request brought no whole answer.
type Error struct {
	Cause Cause
	// Sent tells that the target may have read the request, and acted on it.
	Sent bool
	Err  error
}

// Error returns the text of the underlying error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// cause judges an error of send by how far the attempt had come.
func (a *attempt) cause(err error) Cause {
	over := a.over()
	switch {
	case is[*BlockedError](err):
		return Blocked
	case errors.Is(over, context.DeadlineExceeded):
		if a.conn == nil {
			return ConnectTimeout
		}
		return Timeout
	case over != nil:
		return Canceled
	case a.conn != nil:
		return a.causeConnected(err)
	case a.asked:
		return causeConnecting(err)
	default:
		return Unsendable
	}
}

// causeConnecting judges an error before there was a connection.
func causeConnecting(err error) Cause {
	op, _ := errors.AsType[*net.OpError](err)
	limit, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, net.ErrClosed):
		return Canceled // by Close
	case is[*net.DNSError](err):
		return DNS
	case ok && limit.Timeout():
		return ConnectTimeout
	case op != nil && op.Op == "dial":
		return Refused
	default:
		return TLS // the only step between the dial and the request
	}
}

// Texts of net/http for which it has no exported value; a test for each guards against a change.
var (
	// HTTP/2 calls a single field over the limit an error of compression.
	textsTooLarge = []string{
		"server response headers exceeded", "header list larger than advertised limit", "connection error: COMPRESSION_ERROR",
	}
	textsReset  = []string{"http2: client connection lost", "stream error: "}
	textsClosed = []string{"server closed idle connection", "http2: server sent GOAWAY and closed", "http2: client conn "}
	textsCut    = []string{"unexpected EOF reading trailer"}
)

var (
	errHeaderTooLarge = errors.New("the answer's header is over the limit")
	errStatus         = errors.New("the status of the answer is not one that ends an exchange")
)

// causeConnected judges an error once the request had a connection.
func (a *attempt) causeConnected(err error) Cause {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.Is(err, errHeaderTooLarge), says(err, textsTooLarge):
		return HeaderTooLarge
	case errors.Is(err, errUnanswered), says(err, textsClosed):
		return Closed
	case errors.Is(err, io.ErrUnexpectedEOF) && a.answered() && !a.http2():
		return Truncated
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Closed
	case says(err, textsReset):
		return Reset
	case broken(err):
		// Between two requests a server may close at any time; the reset is its answer to a request
		// that came too late.
		if a.reused && !a.answered() {
			return Closed
		}
		return Reset
	case alert(err):
		return TLS
	case a.conn != nil && a.conn.broke.Load(): // what had come was no whole header for that reason
		return Reset
	default:
		return Protocol
	}
}

// causeBody judges an error while the answer's body was read.
func (a *attempt) causeBody(err error) Cause {
	over := a.over()
	switch {
	case errors.Is(over, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case over != nil:
		return Canceled
	case errors.Is(err, io.ErrUnexpectedEOF), says(err, textsCut), says(err, textsClosed):
		return Truncated
	case broken(err), says(err, textsReset):
		return Reset
	default:
		return Protocol
	}
}

// broken reports whether the connection ended other than by an orderly close.
func broken(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op != opAlert
	}
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func says(err error, texts []string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// alert reports whether the peer ended the secure connection, as it does after the handshake if it
// misses a client certificate.
func alert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return (ok && op.Op == opAlert) || is[tls.RecordHeaderError](err)
}

// opAlert is the Op of the errors that package tls makes of an alert.
const opAlert = "remote error"

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

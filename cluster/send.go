package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
)

// Why a member brought no answer.
var (
	// errUnsent: the member has certainly not read the request.
	errUnsent = errors.New("the member could not be reached")
	// errUnanswered: the member may have read the request.
	errUnanswered = errors.New("the member did not answer")
	// errBroken: so it may, but the connection ended.
	errBroken = fmt.Errorf("%w: the connection ended", errUnanswered)
	// errDistrust: the member does not believe the seal.
	errDistrust = errors.New("the member does not believe this node")
	// errMisled: nor would any, since the member's address leads to another node, be it this one. Its secret is right.
	errMisled = fmt.Errorf("%w: %s", errDistrust, notForUs)
	// errInTime is the cause for which an attempt is given up.
	errInTime = errors.New("no answer in time")
)

// answered is a member's answer. Its end ends the exchange.
type answered struct {
	*http.Response
	cancel context.CancelCauseFunc
}

func (a *answered) end() {
	_ = a.Body.Close()
	a.cancel(nil)
}

// leftover is how much of an answer that nobody needs is read, in bytes; a longer one costs its
// connection.
const leftover = 4 << 10

// discard ends an answer that goes to nobody.
func (a *answered) discard() {
	if a.ContentLength >= 0 && a.ContentLength <= leftover {
		_, _ = io.Copy(io.Discard, a.Body)
	}
	a.end()
}

// send makes one request to a member. The error is one of the above.
func (f *Forwarder) send(r *http.Request, m Member, c Call, hop Hop) (*answered, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	a := f.attempt(cancel)
	if a.traced {
		ctx = httptrace.WithClientTrace(ctx, a.trace(f.AnswerTimeout, c.Header))
	}
	resp, err := f.exchange(ctx, r, m, c, hop)
	inTime := a.end()
	if err == nil && inTime {
		return f.believed(&answered{resp, cancel})
	}
	if err == nil {
		err = errors.Join(errInTime, resp.Body.Close())
	}
	err = f.classify(ctx, a, err)
	cancel(nil)
	return nil, err
}

func (f *Forwarder) exchange(ctx context.Context, r *http.Request, m Member, c Call, hop Hop) (*http.Response, error) {
	req, err := f.request(ctx, r, m, c)
	if err != nil {
		return nil, err
	}
	hop.writeTo(req.Header)
	f.Seal.Sign(req, m.ID, c.Body)
	return f.Transport.RoundTrip(req)
}

// classify says which error it is that an attempt had.
func (f *Forwarder) classify(ctx context.Context, a *attempt, err error) error {
	unsent := a.traced && !a.reached.Load() || !a.traced && f.Unsent(err)
	switch {
	case unsent:
		return fmt.Errorf("%w: %w", errUnsent, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
	default:
		return fmt.Errorf("%w: %w", errBroken, err)
	}
}

// believed returns an answer unless it says that the member does not believe the seal.
func (f *Forwarder) believed(a *answered) (*answered, error) {
	switch why := a.notTaken(http.StatusUnauthorized, refusedHeader); why {
	case "":
		return a, nil
	case notForUs:
		a.discard()
		return nil, errMisled
	default:
		a.discard()
		return nil, fmt.Errorf("%w: %.32s", errDistrust, why)
	}
}

// notTaken returns the field of an answer in which a member says why it has not taken the request. An
// answer of the member as the owner has none: a target's header, which it may relay, does not count.
func (a *answered) notTaken(status int, field string) string {
	if a.StatusCode != status || a.Header.Get(OwnerHeader) != "" {
		return ""
	}
	return a.Header.Get(field)
}

// request is what goes to the member: the method and path of the client's request, and of its header
// nothing.
func (f *Forwarder) request(ctx context.Context, r *http.Request, m Member, c Call) (*http.Request, error) {
	u, err := url.Parse(m.Address)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath = r.URL.Path, r.URL.RawPath
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	header := make(http.Header, len(c.Header)+10)
	for name, values := range c.Header {
		header[name] = values
	}
	header["Accept-Encoding"] = []string{"identity"} // the answer goes through as it is
	header["User-Agent"] = []string{"aquifer"}
	req := &http.Request{
		Method: r.Method, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	if len(c.Body) > 0 {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.Body)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(c.Body))
	}
	return req.WithContext(ctx), nil
}

// self is the id of this node.
func (f *Forwarder) self() string { return f.Owners.fields.now().roster.Self.ID }

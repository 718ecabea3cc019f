package egress

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"
)

// exchange is a request on a link and its answer, whose body it is. The goroutine that asks writes the
// request, waits for the answer and reads it.
type exchange struct {
	attempt *attempt
	links   *links
	link    *link
	in      *bufio.Reader
	release func() bool  // ends the link's bond with the context; nil if there is none
	upload  <-chan error // how writing the request ended; nil if it was written before the answer was read
	keep    bool         // the link may be used again once the answer is read
	body    io.Reader
	end     error // of the body: io.EOF or an *Error; nil while there may be more
}

// exchange sends the request over a link. A kept link that breaks before anything came back is taken for
// one that its target had closed before: the request goes out again, over another one, if nothing was
// written, or once if its method is safe.
func (a *attempt) exchange(address string) (*http.Response, error) {
	for {
		resp, err := a.try(address)
		switch {
		case err == nil:
			return resp, nil
		case !a.reused || a.answered() || a.over() != nil || errors.Is(err, os.ErrDeadlineExceeded):
			return nil, err
		case a.wrote() && !a.mayGoAgain():
			return nil, err
		}
		a.forget()
	}
}

func (a *attempt) try(address string) (*http.Response, error) {
	s := a.client.links
	o := s.outgoings.get()
	if err := o.write(&a.request, a.url); err != nil {
		s.outgoings.put(o)
		return nil, err
	}
	a.asked = true
	l, reused, err := s.get(a, address)
	if err != nil {
		s.outgoings.put(o)
		return nil, err
	}
	a.use(l.conn, reused)
	e := &exchange{attempt: a, links: s, link: l, in: s.readers.Get().(*bufio.Reader)}
	e.in.Reset(l)
	if a.Done() != nil {
		e.release = context.AfterFunc(a.Context, l.cut)
	}
	resp, err := e.run(o)
	if err != nil {
		e.finish(false)
		return nil, err
	}
	return resp, nil
}

// lastWord is how long an answer may take that the target has sent before it closed the connection for
// the rest of the request.
const lastWord = time.Second

func (e *exchange) run(o *outgoing) (*http.Response, error) {
	unsent := e.send(o)
	if unsent != nil && !e.mayHear(unsent) {
		return nil, unsent
	}
	resp, err := e.receive()
	if err != nil {
		return nil, cmp.Or(unsent, err)
	}
	e.keep = unsent == nil && !resp.Close
	e.body = resp.Body
	if resp.Body == http.NoBody {
		e.finish(true)
		return resp, nil
	}
	resp.Body = e
	return resp, nil
}

// mayHear reports whether an answer may have come although the request could not be written, and waits
// for it no longer than it has to.
func (e *exchange) mayHear(unsent error) bool {
	a := e.attempt
	if !a.wrote() || a.over() != nil || errors.Is(unsent, os.ErrDeadlineExceeded) {
		return false
	}
	end := time.Now().Add(lastWord)
	if !a.deadline.IsZero() && a.deadline.Before(end) {
		end = a.deadline
	}
	return e.link.SetReadDeadline(end) == nil
}

// receive reads the head of the answer, which may have hints of 1xx before it.
func (e *exchange) receive() (*http.Response, error) {
	var asked *http.Request // GET, as far as its answer is concerned
	if e.attempt.request.Method == http.MethodHead {
		asked = &http.Request{Method: http.MethodHead}
	}
	for e.link.room = e.links.header; ; {
		resp, err := readResponse(e.in, asked)
		switch {
		case err != nil && e.link.room <= 0:
			return nil, fmt.Errorf("%w of %d bytes", errHeaderTooLarge, e.links.header)
		case errors.Is(err, io.ErrUnexpectedEOF) && !e.attempt.answered():
			return nil, errUnanswered
		case err != nil:
			return nil, err
		case resp.StatusCode < http.StatusContinue, resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, fmt.Errorf("%w: %03d", errStatus, resp.StatusCode)
		case resp.StatusCode >= http.StatusOK:
			e.link.room = math.MaxInt64
			return resp, nil
		}
	}
}

// Read reads the answer's body. At its end the link is free for the next exchange.
func (e *exchange) Read(p []byte) (int, error) {
	if e.end != nil {
		return 0, e.end
	}
	n, err := e.body.Read(p)
	switch err {
	case nil:
	case io.EOF:
		e.end = io.EOF
		e.finish(true)
	default:
		e.end = e.attempt.failBody(err)
		e.finish(false)
	}
	return n, e.end
}

var errClosedBody = errors.New("the body of the answer is closed")

// Close ends the exchange. The link of a body that was not read to its end is dropped.
func (e *exchange) Close() error {
	if e.end == nil {
		e.end = errClosedBody
		e.finish(false)
	}
	return nil
}

// finish gives the link back, or closes it unless the exchange is whole and nothing is left of it. In
// either case nothing of the exchange goes on.
func (e *exchange) finish(whole bool) {
	bound := e.release == nil || e.release()
	keep := whole && e.keep && bound && e.in.Buffered() == 0 && e.sent()
	e.links.readers.Put(e.in)
	if keep {
		e.links.put(e.link)
		return
	}
	_ = e.link.Close()
	if e.upload != nil {
		for range e.upload { // until it is closed
		}
	}
}

package cluster

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// attempt is what is known of a request on its way.
//
// mu makes sure that the timer is not started again once the attempt has ended.
type attempt struct {
	// traced: the transport tells how far the request has come.
	traced bool
	// reached: the request has a connection, so it may have been read.
	reached atomic.Bool

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// attempt starts the clock of a request; cancel is called when its time is over.
func (f *Forwarder) attempt(cancel context.CancelCauseFunc) *attempt {
	limit := f.ConnectTimeout
	if f.Unsent != nil { // there is no word when it is connected, and the transport bounds that itself
		limit = f.AnswerTimeout
	}
	return &attempt{traced: f.Unsent == nil, timer: time.AfterFunc(limit, func() { cancel(errInTime) })}
}

// trace follows a request through the transport. There is the full time for an answer from the moment
// that the request has a connection, and again from when it is written.
func (a *attempt) trace(limit time.Duration, header http.Header) *httptrace.ClientTrace {
	_, twice := header["Idempotency-Key"]
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			// Another connection is asked for when the last one turned out to be closed before
			// anything was written, except that a request with this header may have been.
			if !twice {
				a.reached.Store(false)
			}
		},
		GotConn:      func(httptrace.GotConnInfo) { a.reached.Store(true); a.extend(limit) },
		WroteRequest: func(httptrace.WroteRequestInfo) { a.extend(limit) },
	}
}

func (a *attempt) extend(limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.timer.Reset(limit)
	}
}

// end stops the clock, and reports whether it had not run out.
func (a *attempt) end() (inTime bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.timer.Stop()
}

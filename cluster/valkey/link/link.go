package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

// ErrDown tells that Valkey did not answer the calls before, and was not asked.
var ErrDown = errors.New("valkey does not answer")

// ErrClosed tells that the link is closed.
var ErrClosed = errors.New("the link to valkey is closed")

// Config is what a Link is built from.
type Config struct {
	Target
	// Timeout bounds each call, connecting included. Lower: callers wait less for a Valkey that is ill;
	// higher: one that is only slow is still heard.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Link is a connection to Valkey. It is safe for concurrent use.
type Link struct {
	options valkey.ClientOption
	timeout time.Duration
	limit   time.Duration // of a call whose caller may have given up
	health  health

	// connecting makes one caller connect while the others wait, and guards client.
	connecting sync.Mutex
	client     valkey.Client // nil: not connected

	// ending guards closed, and that no call begins once Close waits for them.
	ending sync.Mutex
	closed bool
	calls  sync.WaitGroup // that run, also those that were given up
}

// New returns a link that is not connected yet. The error says what is wrong with the target, without
// its secrets.
func New(c Config) (*Link, error) {
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	l := &Link{options: o, timeout: c.Timeout, limit: max(patience, c.Timeout), health: health{log: c.Logger}}
	l.options.ConnWriteTimeout = l.limit
	return l, nil
}

// Do calls f with a client and returns what it returns, or an error when that takes longer than the
// timeout of the link; f may then still go on for a while, with nobody to hear of it, and what it sends may
// come to pass. The errors of f are those of the client, for they tell how Valkey is.
func Do[T any](ctx context.Context, l *Link, f func(context.Context, valkey.Client) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	began := time.Now()
	if err := l.health.enter(began); err != nil {
		return none, err
	}
	done := make(chan outcome, 1)
	// The client does not give up connecting or a full pipeline when a context ends, so the wait is ended here.
	l.begin(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.limit)
		defer cancel()
		var o outcome
		c, err := l.connected()
		if o.err = err; err == nil {
			o.value, o.err = f(ctx, c)
			l.leaveReplica(c, o.err)
		}
		if !failed(o.err) {
			l.health.heard()
		}
		done <- o
	}, func() { done <- outcome{err: ErrClosed} })
	limit := time.NewTimer(l.timeout)
	defer limit.Stop()
	select {
	case o := <-done:
		l.health.leave(began, time.Now(), o.err)
		return o.value, o.err
	case <-limit.C:
		err := fmt.Errorf("valkey did not answer in %v: %w", l.timeout, context.DeadlineExceeded)
		l.health.leave(began, time.Now(), err)
		return none, err
	case <-ctx.Done(): // says nothing about Valkey
		l.health.abandon()
		return none, ctx.Err()
	}
}

// begin runs a call beside its caller, or refused if the link is closed.
func (l *Link) begin(call, refused func()) {
	l.ending.Lock()
	defer l.ending.Unlock()
	if l.closed {
		refused()
		return
	}
	l.calls.Go(call)
}

// connected returns the client, and connects if there is none.
func (l *Link) connected() (valkey.Client, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.client == nil {
		c, err := valkey.NewClient(l.options)
		if err != nil {
			return nil, fmt.Errorf("connect to valkey: %w", err)
		}
		l.client = c
	}
	return l.client, nil
}

// leaveReplica gives up a client whose server takes no writes any more, so that the next call looks for the
// one that does.
func (l *Link) leaveReplica(c valkey.Client, err error) {
	if firstWord(err) == "READONLY" && l.forget(c) {
		c.Close()
	}
}

// forget reports whether c was the client, and makes it that no longer.
func (l *Link) forget(c valkey.Client) bool {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.client != c {
		return false
	}
	l.client = nil
	return true
}

// Close ends the link. It returns when all calls have ended, which may take some seconds if Valkey does not
// answer.
func (l *Link) Close() {
	l.ending.Lock()
	l.closed = true
	l.ending.Unlock()
	l.calls.Wait()
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.client != nil {
		l.client.Close()
		l.client = nil
	}
}

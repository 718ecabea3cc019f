package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

const (
	// maxSilence is how long a stream may be silent before it counts as dead. A node writes every 15 s.
	maxSilence = 45 * time.Second
	// maxLinger is how long to wait for the server to end a stream whose last event was read.
	maxLinger = time.Second
	// The waits between attempts to resume grow from first to last, unless the server asks for more.
	firstWait = time.Second
	lastWait  = 30 * time.Second
)

// Event is one event of a job's stream.
type Event struct {
	ID   string // from which a stream can be resumed
	Name string // one of the names in package events
	Data []byte // JSON
}

// Decode returns the data as a struct of package events; ok is false for an event unknown there.
func (e Event) Decode() (data any, ok bool, err error) { return events.Decode(e.Name, e.Data) }

// Terminal reports whether the event is the end of its job.
func (e Event) Terminal() bool { return events.Event{Name: e.Name}.Terminal() }

// Watch iterates over what happens to a job, and ends with its end. lastID is the id of the last
// event that the caller has seen; empty for a new watch.
//
// A stream that breaks is resumed where it broke. The loop ends with an error when ctx ends, when the
// first request fails, when a later one is refused for good, or when Reconnects attempts in a row
// brought nothing. A gap event says that events are missing; a closing event is not passed on.
func (c *Client) Watch(ctx context.Context, id, lastID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := watch{client: c, id: id, yield: yield, dec: newDecoder(c.MaxBytes)}
		w.dec.id = lastID
		if err := w.run(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

// watch is one Watch. Its loop owns it.
type watch struct {
	client   *Client
	id       string
	yield    func(Event, error) bool
	dec      *decoder
	opened   bool // the first request was answered with a stream
	ended    bool // the end of the job was read
	done     bool // it was, or the caller has had enough
	failures int  // attempts in a row without an event
}

// run follows the job over as many streams as it takes.
func (w *watch) run(ctx context.Context) error {
	for {
		err := w.follow(ctx)
		switch {
		case w.done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !w.opened || final(err) || w.failures >= w.client.Reconnects:
			return err
		}
		if err := sleep(ctx, w.wait(err)); err != nil {
			return err
		}
		w.failures++
	}
}

// follow reads one stream to its end, and says why it ended before the job.
func (w *watch) follow(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := request{
		method: http.MethodGet, path: pathOf(w.id) + "/stream",
		header: http.Header{"Accept": {"text/event-stream"}},
	}
	if w.dec.id != "" {
		q.header["Last-Event-Id"] = []string{w.dec.id}
	}
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	resp, err := w.client.send(ctx, q)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode == http.StatusNoContent:
		w.done = true // the end was seen before
		return nil
	case resp.StatusCode != http.StatusOK:
		return w.client.refused(q, resp)
	case kind != "text/event-stream":
		return fmt.Errorf("%s %s: answer of type %q is not a stream", q.method, q.path, kind)
	}
	w.opened = true
	if err := w.read(&audible{resp.Body, silence}); err != nil {
		return fmt.Errorf("%s %s: %w", q.method, q.path, cause(ctx, err))
	}
	if w.ended {
		// The server ends the stream now. Who leaves first looks like one that never got the end.
		silence.Reset(maxLinger)
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	return nil
}

// errSilent is why a stream was given up.
var errSilent = fmt.Errorf("silent for %v", maxSilence)

func cause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// read passes on the events of one stream.
func (w *watch) read(r io.Reader) error {
	w.dec.attach(r)
	for {
		f, err := w.dec.next()
		if err != nil {
			return err
		}
		w.failures = 0
		if f.name == events.NameClosing {
			continue
		}
		e := Event{ID: f.id, Name: f.name, Data: f.data}
		w.ended = e.Terminal()
		if !w.yield(e, nil) || w.ended {
			w.done = true
			return nil
		}
	}
}

// final reports whether asking again is no use.
func final(err error) bool {
	if errors.Is(err, errTooLarge) {
		return true
	}
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Fault.Kind {
	case fault.Overloaded, fault.Draining, fault.Unavailable, fault.Internal:
		return false
	default:
		return true
	}
}

// wait is how long to wait before the next attempt: what the server asks for, or longer each time.
func (w *watch) wait(err error) time.Duration {
	d := min(firstWait<<min(w.failures, 10), lastWait)
	if d = max(d, w.dec.retry); w.failures == 0 && w.dec.retry > 0 {
		d = w.dec.retry
	}
	var e *Error
	if errors.As(err, &e) {
		d = max(d, e.Fault.RetryAfter)
	}
	return d + rand.N(d/10+1) // so that the clients of a node that restarts do not come all at once
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// audible gives up a stream that is silent while it is read.
type audible struct {
	io.Reader
	silence *time.Timer
}

func (a *audible) Read(p []byte) (int, error) {
	a.silence.Reset(maxSilence)
	defer a.silence.Stop() // the caller of Watch may take its time
	return a.Reader.Read(p)
}

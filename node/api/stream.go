package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

const (
	// heartbeat is the longest silence of a stream; proxies cut what is silent for longer.
	heartbeat = 15 * time.Second
	// positionEvery is how often a waiting job's place is told.
	positionEvery = 2 * time.Second
)

// stream tells what happens to a job, until it has ended.
func (f look) stream(w http.ResponseWriter, r *http.Request) int {
	id, err := idOf(r)
	if err != nil {
		return f.fail(w, r, err)
	}
	live := f.Hub.Subscribe(id) // before the job is read, so that nothing falls between the two
	defer live.Close()
	s, err := f.Jobs.Get(r.Context(), id)
	if err != nil {
		live.Close()
		return f.elsewhere(w, r, id, err)
	}
	lastID := r.Header.Get("Last-Event-ID")
	if at := events.CursorAt(s); at.Ended && lastID == strconv.Itoa(at.Seq) {
		w.WriteHeader(http.StatusNoContent) // tells an EventSource not to come back
		return http.StatusNoContent
	}
	if r.Method == http.MethodHead {
		newSSE(w, r)
		return http.StatusOK
	}
	t := teller{face: f.face, live: live, told: events.Follow(live, s, lastID), place: placeOf(s), replayed: s.State.Phase().Ended()}
	return t.tell(w, r)
}

// teller tells one client about one job. The goroutine of the request owns it.
type teller struct {
	face  *face
	out   *sse
	live  *events.Subscription
	told  *events.Stream
	place place
	// replayed: the job had ended before. What a late client is told is the stored result, which may
	// be cut, so it confirms nothing.
	replayed bool
	// first comes before all that happens to the job; nil for nothing.
	first *events.Event
}

// tell answers a request with the stream.
func (t *teller) tell(w http.ResponseWriter, r *http.Request) int {
	t.face.metrics.streams.Inc()
	defer t.face.metrics.streams.Dec()
	t.out = newSSE(w, r)
	t.run(r.Context())
	return http.StatusOK
}

// run ends with the job, the client, the node, or the stream's life. A client that is gone is
// nobody to tell, so errors of writing just end it.
func (t *teller) run(ctx context.Context) {
	if t.out.open() != nil || t.first != nil && t.out.event(*t.first) != nil {
		return
	}
	end := time.Now().Add(t.face.StreamLife)
	nextPosition := time.Now().Add(positionEvery)
	for {
		e, err := t.next(ctx, earliest(end, nextPosition, t.out.wrote.Add(heartbeat)))
		now := time.Now()
		switch {
		case err == nil:
			t.place.note(e)
			if err = t.out.event(e); err == nil && e.Terminal() {
				t.confirm(ctx)
				return
			}
		case errors.Is(err, events.ErrClosed):
			_ = t.out.closing(events.Closing(t.told.Last(), events.ClosingShutdown))
			return
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return
		case !now.Before(end):
			_ = t.out.closing(events.Closing(t.told.Last(), events.ClosingLifeLimit))
			return
		case !now.Before(nextPosition):
			nextPosition = now.Add(positionEvery)
			err = t.position(ctx)
		default:
			err = t.out.comment()
		}
		if err != nil {
			return
		}
	}
}

// next is the next event, or context.DeadlineExceeded when none has come until wake.
func (t *teller) next(ctx context.Context, wake time.Time) (events.Event, error) {
	ctx, cancel := context.WithDeadline(ctx, wake)
	defer cancel()
	return t.told.Next(ctx)
}

// confirm says that the client has the end: it was written and flushed, and the client's machine has it.
func (t *teller) confirm(ctx context.Context) {
	if !t.replayed && t.out.taken(ctx) {
		t.live.Confirm()
	}
}

// position tells the job's place if it waits in its lane. A place that cannot be read now is told
// the next time.
func (t *teller) position(ctx context.Context) error {
	e, ok := t.place.find(ctx, t.face.Jobs)
	if !ok {
		return t.quiet()
	}
	at, ok, err := t.face.Standing(ctx, e)
	if err != nil || !ok {
		return t.quiet()
	}
	return t.out.event(events.Position(e.ID, t.told.Last(), at.Position, at.etaMS()))
}

// quiet breaks a silence that has lasted long enough.
func (t *teller) quiet() error {
	if time.Since(t.out.wrote) < heartbeat {
		return nil
	}
	return t.out.comment()
}

// place is where a job waits, as far as a stream knows from what it has told.
type place struct {
	entry job.Entry // Order 0: not known
	// due is when a job that waits for a retry joins its lane again, in Unix ms.
	due int64
	// sent: the job is with its target.
	sent bool
}

func placeOf(s job.Snapshot) place {
	return place{entry: job.Entry{Lane: s.Job.Lane(), Order: s.State.Order, ID: s.Job.ID}, due: s.State.DueAt}
}

// note learns from an event that is told.
func (p *place) note(e events.Event) {
	switch d := e.Data.(type) {
	case events.DispatchingData:
		p.sent = true
	case events.RetryingData:
		p.sent, p.due, p.entry.Order = false, d.RetryAt, 0
	}
}

// find returns the job's entry if it may be waiting in its lane. After a retry it has a new one, which
// the store knows.
func (p *place) find(ctx context.Context, jobs Jobs) (job.Entry, bool) {
	if p.sent || time.Now().UnixMilli() < p.due {
		return p.entry, false
	}
	if p.entry.Order == 0 {
		s, err := jobs.Get(ctx, p.entry.ID)
		if err != nil {
			return p.entry, false
		}
		p.entry.Order = s.State.Order
	}
	return p.entry, p.entry.Order != 0
}

func earliest(a time.Time, others ...time.Time) time.Time {
	for _, b := range others {
		if b.Before(a) {
			a = b
		}
	}
	return a
}

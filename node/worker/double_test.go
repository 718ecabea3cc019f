package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/webhook"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// listener follows a job like a stream does, and confirms the end if it is to.
type listener struct {
	mu   sync.Mutex
	seen []events.Event
	done chan struct{}
}

func (r *rig) listen(id job.ID, confirms bool) *listener {
	r.t.Helper()
	l := &listener{done: make(chan struct{})}
	live := r.hub.Subscribe(id)
	told := events.Follow(live, r.get(id), "")
	r.work.Go(func() {
		defer close(l.done)
		defer live.Close()
		for {
			e, err := told.Next(r.t.Context())
			if err != nil {
				return
			}
			l.mu.Lock()
			l.seen = append(l.seen, e)
			l.mu.Unlock()
			switch {
			case e.Terminal() && confirms:
				live.Confirm()
			case e.Terminal(): // frozen: it does not even go away
				<-r.attempts.Done()
			}
		}
	})
	return l
}

// names are the events that it was told.
func (l *listener) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, e := range l.seen {
		names = append(names, e.Name)
	}
	return names
}

// last is the data of the last event.
func (l *listener) last() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[len(l.seen)-1].Data
}

func (r *rig) names(l *listener, want ...string) {
	r.t.Helper()
	if got := l.names(); !slices.Equal(got, want) {
		r.t.Errorf("events %v, want %v", got, want)
	}
}

// sent is a call that reached the target.
type sent struct {
	dispatch.Call
	ID      string
	Attempt string
	At      time.Time
}

// header is the value of one of our own headers.
func (s sent) header(name string) string {
	for _, h := range s.Extra {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// target is a scripted target. It is the Sender of the worker.
type target struct {
	// script answers a call; nil: 200 after 100 ms.
	script func(ctx context.Context, s sent) dispatch.Outcome

	mu    sync.Mutex // guards what follows; turns run side by side
	calls []sent
}

// Do is worker.Sender, with what dispatch.Dispatcher adds to an outcome.
func (tg *target) Do(ctx context.Context, c dispatch.Call) (dispatch.Outcome, pace.Signal) {
	s := sent{Call: c, At: time.Now()}
	s.ID, s.Attempt = s.header("X-Aqueduct-Job-Id"), s.header("X-Aqueduct-Attempt")
	tg.mu.Lock()
	tg.calls = append(tg.calls, s)
	tg.mu.Unlock()
	var o dispatch.Outcome
	if tg.script == nil {
		o = pause(ctx, 100*time.Millisecond, answer(200))
	} else {
		o = tg.script(ctx, s)
	}
	o.StartedAt, o.Took = s.At, time.Since(s.At)
	failed := o.Retryable()
	sig := pace.ReadSignal(o.Status, failed, o.Header, time.Now())
	o.NoRetry = o.NoRetry || sig.NoRetry && failed
	return o, sig
}

// all returns the calls of all jobs.
func (tg *target) all() []sent {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	return slices.Clone(tg.calls)
}

// of returns the calls of one job.
func (tg *target) of(id job.ID) []sent {
	return slices.DeleteFunc(tg.all(), func(s sent) bool { return s.ID != id.String() })
}

// answer is an answer of a target.
func answer(status int, headers ...string) dispatch.Outcome {
	o := dispatch.Outcome{Status: status, Header: http.Header{"Content-Type": {"text/plain"}}, Body: fmt.Append(nil, "says ", status)}
	for i := 0; i < len(headers); i += 2 {
		o.Header.Set(headers[i], headers[i+1])
	}
	return o
}

// broken is an attempt without an answer.
func broken(class job.ErrorClass, cause egress.Cause) dispatch.Outcome {
	return dispatch.Outcome{
		Class: class, MaybeExecuted: true, Err: &egress.Error{Cause: cause, Sent: true, Err: errors.New(string(class))},
	}
}

// pause is an attempt that takes a while, and is cut when ctx ends.
func pause(ctx context.Context, d time.Duration, o dispatch.Outcome) dispatch.Outcome {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return o
	case <-ctx.Done():
		return broken(job.Internal, egress.Canceled)
	}
}

// answers makes a script of what each attempt gets, the last one again and again.
func answers(list ...dispatch.Outcome) func(context.Context, sent) dispatch.Outcome {
	return func(ctx context.Context, s sent) dispatch.Outcome {
		var n int
		_, _ = fmt.Sscan(s.Attempt, &n)
		return pause(ctx, 100*time.Millisecond, list[min(n, len(list))-1])
	}
}

// receiver is a scripted receiver of webhooks.
type receiver struct {
	// script answers the n-th delivery of a job, from 1; nil: 200.
	script func(n int, body string) int

	mu     sync.Mutex          // guards what follows
	bodies map[string][]string // by delivery id
}

// Send is webhook.Sender.
func (rc *receiver) Send(ctx context.Context, c webhook.Call) webhook.Reply {
	if pause(ctx, 50*time.Millisecond, answer(200)).Class != "" {
		return webhook.Reply{Class: job.Internal}
	}
	var id string
	for _, h := range c.Headers {
		if h.Name == "X-Aqueduct-Delivery-Id" {
			id = h.Value
		}
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.bodies == nil {
		rc.bodies = map[string][]string{}
	}
	rc.bodies[id] = append(rc.bodies[id], string(c.Body))
	status := 200
	if rc.script != nil {
		status = rc.script(len(rc.bodies[id]), string(c.Body))
	}
	return webhook.Reply{Status: status}
}

// got returns the bodies that came for a job.
func (rc *receiver) got(id job.ID) []string {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return slices.Clone(rc.bodies[webhook.DeliveryID(id)])
}

// deliveryIDs are the ids of all deliveries that came.
func (rc *receiver) deliveryIDs() []string {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return slices.Sorted(maps.Keys(rc.bodies))
}

type listeners = worker.Listeners

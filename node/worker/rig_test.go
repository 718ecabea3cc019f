package worker_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/agenda"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
	"github.com/aquifer-fleet/aquifer/node/webhook"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// rig is a node's way of a job, from its acceptance to its delivery, with a scripted target and a
// scripted receiver. It lives in a bubble.
type rig struct {
	t    *testing.T
	disk *storetest.Disk
	store.Store
	calls, deliveries *queue.Queue
	hub               *events.Hub
	ending            *worker.Ending
	worker            *worker.Worker
	agenda            *agenda.Agenda
	intake            *intake.Intake
	target            *target
	receiver          *receiver
	log               *lockedBuffer

	attempts                      context.Context
	noTurns, noAgenda, noAttempts context.CancelFunc
	work                          sync.WaitGroup
	ids                           []job.ID
}

// options are what a test wants to be different.
type options struct {
	disk      *storetest.Disk // nil: a new one
	target    *target         // nil: a new one
	receiver  *receiver
	settings  pace.Settings                 // zero: a fast target
	window    int                           // of a lane; 0: the usual one
	store     func(store.Store) store.Store // between the parts and the disk
	listeners func(*events.Hub) listeners
	wake      func(time.Time)
}

var policy = worker.Policy{
	BackoffMax: 5 * time.Minute, RetryAfterMax: time.Hour,
	CompletedTTL: 30 * time.Minute, FailedTTL: 2 * time.Hour, ResultMaxBytes: 16,
}

// streamWait is how long the end of a job waits for a stream.
const streamWait = 2 * time.Second

// newRig makes a node that does not run yet.
func newRig(t *testing.T, o options) *rig {
	t.Helper()
	r := &rig{t: t, disk: o.disk, target: o.target, receiver: o.receiver, log: new(lockedBuffer)}
	if r.disk == nil {
		r.disk = storetest.NewDisk(t)
	}
	if r.target == nil {
		r.target = &target{}
	}
	if r.receiver == nil {
		r.receiver = &receiver{}
	}
	if o.settings == (pace.Settings{}) {
		o.settings = pace.Settings{RPS: 1000, MaxConcurrent: 100}
	}
	var err error
	if r.Store, err = r.disk.Open(); err != nil {
		t.Fatal(err)
	}
	if o.store != nil {
		r.Store = o.store(r.Store)
	}
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	r.hub = events.New(events.Config{Wait: streamWait})
	r.attempts, r.noAttempts = context.WithCancel(t.Context())
	settings := func(string) pace.Settings { return o.settings }
	r.calls = queue.New(queue.Config{
		Line: job.Calls, Window: o.window, Settings: settings, Backlog: r.Store, Logger: logger,
		Runner: runner(func(turn *queue.Turn) queue.Verdict { return r.worker.Run(r.attempts, turn) }),
	})
	r.deliveries = queue.New(queue.Config{
		Line: job.Deliveries, Window: o.window, Settings: settings, Backlog: r.Store, Logger: logger, Runner: runner(r.deliver),
	})
	r.ending = &worker.Ending{Ledger: r.Store, Listeners: r.hub, Deliveries: line{r.deliveries}, Logger: logger}
	if o.listeners != nil {
		r.ending.Listeners = o.listeners(r.hub)
	}
	r.agenda = agenda.New(agenda.Config{
		Store: r.Store, Calls: line{r.calls}, Deliveries: line{r.deliveries}, Sweep: 10 * time.Second, Logger: logger,
		Fail: func(ctx context.Context, s job.Snapshot) error { return r.ending.Expire(ctx, s, policy.FailedTTL) },
	})
	if o.wake == nil {
		o.wake = r.agenda.Wake
	}
	r.worker = worker.New(worker.Config{
		Store: r.Store, Sender: r.target, Ending: r.ending, Policy: policy, NodeID: "node-1", Wake: o.wake, Logger: logger,
		Timeout: func(string) time.Duration { return 2 * time.Minute },
	})
	r.intake = intake.New(intake.Config{
		Store: r.Store, Calls: line{r.calls}, Deliveries: line{r.deliveries}, Wake: r.agenda.Wake,
		Admit: func(int64) error { return nil }, Draining: func() bool { return false },
		IDs: job.IDs{Tag: job.TagOf("node-1"), Rand: rand.Reader}, QueuedTTL: 24 * time.Hour,
	})
	return r
}

// run makes a node and starts it. It is stopped at the end of the test at the latest.
func run(t *testing.T, o options) *rig {
	t.Helper()
	r := newRig(t, o)
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	turning, noTurns := context.WithCancel(r.t.Context())
	planning, noAgenda := context.WithCancel(r.t.Context())
	r.noTurns, r.noAgenda = noTurns, noAgenda
	for _, run := range []func() error{
		func() error { return r.calls.Run(turning) },
		func() error { return r.deliveries.Run(turning) },
		func() error { return r.agenda.Run(planning) },
	} {
		r.work.Go(func() {
			if err := run(); err != nil {
				r.t.Error(err)
			}
		})
	}
}

// stop ends the node in the order of a node that stops. Calling it again does nothing.
func (r *rig) stop() {
	r.noTurns()
	r.noAgenda()
	r.hub.CloseAll()
	r.noAttempts()
	r.work.Wait()
	r.ending.Wait()
}

// recover takes up what stands on the disk, before the start.
func (r *rig) recover() {
	r.t.Helper()
	for l, q := range map[job.Line]*queue.Queue{job.Calls: r.calls, job.Deliveries: r.deliveries} {
		for e, err := range r.Waiting(r.t.Context(), l) {
			r.ok(err)
			q.Restore(e)
		}
	}
	for d, err := range r.Pending(r.t.Context()) {
		r.ok(err)
		q := r.calls
		if d.Kind == store.DueDelivery {
			q = r.deliveries
		}
		q.RestoreWaiting(d.Lane)
	}
}

// deliver is a turn of a delivery.
func (r *rig) deliver(t *queue.Turn) queue.Verdict {
	outcome, at := webhook.New(webhook.Config{
		Store: r.Store, Sender: r.receiver, Logger: slog.New(slog.DiscardHandler),
		Gone:   func(err error) bool { return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrStale) },
		Policy: webhook.Policy{MaxAttempts: 5, BackoffMax: time.Minute, RetryAfterMax: time.Hour},
	}).Deliver(r.attempts, webhook.Turn{Entry: t.Entry, Held: t.Held, Release: t.Release})
	switch outcome {
	case webhook.Postponed:
		r.agenda.Wake(at)
		return queue.Waits
	case webhook.Owed:
		return queue.Waits
	default:
		return queue.Ended
	}
}

// line is a queue as its users see it.
type line struct{ *queue.Queue }

func (l line) Reserve(lane job.Lane, id job.ID) (intake.Place, intake.Load) {
	return l.Queue.Reserve(lane, id), intake.Load{}
}

func (l line) Resume(lane job.Lane, id job.ID) intake.Place { return l.Queue.Resume(lane, id) }

type runner func(*queue.Turn) queue.Verdict

func (f runner) Run(_ context.Context, t *queue.Turn) queue.Verdict { return f(t) }

// request is a job of a user, with four retries.
func request(user, key string, edit ...func(*job.Request)) *job.Request {
	q := &job.Request{
		UserID: user, KeyName: key, URL: "http://target.test/path", Method: "POST", Body: []byte("question"),
		WebhookURL: "http://receiver.test/hook", MaxRetries: 4, TimeoutMS: job.UnsetTimeout,
	}
	for _, e := range edit {
		e(q)
	}
	return q
}

func retries(n int) func(*job.Request)    { return func(q *job.Request) { q.MaxRetries = n } }
func timeout(ms int64) func(*job.Request) { return func(q *job.Request) { q.TimeoutMS = ms } }
func before(at time.Time) func(*job.Request) {
	return func(q *job.Request) { q.ExecuteBefore = at.UnixMilli() }
}

// submit has a job accepted.
func (r *rig) submit(q *job.Request) job.ID {
	r.t.Helper()
	got, err := r.intake.Submit(r.t.Context(), intake.Submission{Request: q})
	r.ok(err)
	r.ids = append(r.ids, got.ID)
	return got.ID
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(id job.ID) job.Snapshot {
	r.t.Helper()
	s, err := r.Get(r.t.Context(), id)
	r.ok(err)
	return s
}

// settled waits until nothing is left to do, and checks that nothing is left behind.
func (r *rig) settled() {
	r.t.Helper()
	for range 48 * 60 {
		synctest.Wait()
		if r.calls.Stats() == (queue.Stats{}) && r.deliveries.Stats() == (queue.Stats{}) {
			break
		}
		time.Sleep(time.Minute)
	}
	for name, q := range map[string]*queue.Queue{"calls": r.calls, "deliveries": r.deliveries} {
		if s := q.Stats(); s != (queue.Stats{}) {
			r.t.Errorf("%s: left %+v", name, s)
		}
		if err := q.WaitIdle(r.t.Context()); err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
	}
	if err := storetest.CheckPlaces(r.t.Context(), r.Store, r.ids); err != nil {
		r.t.Error(err)
	}
	for e, err := range r.Waiting(r.t.Context(), job.Calls) {
		r.t.Errorf("still waits: %+v, %v", e, err)
	}
	for e, err := range r.Waiting(r.t.Context(), job.Deliveries) {
		r.t.Errorf("still owed: %+v, %v", e, err)
	}
	for d, err := range r.Pending(r.t.Context()) {
		r.t.Errorf("still due: %+v, %v", d, err)
	}
}

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

// lockedBuffer takes log lines from many goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
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

// failing is a fault of a method: its next n calls fail, and land all the same if they are to.
func failing(method string, n int, landed bool) storetest.Fault {
	return func(m string) (bool, error) {
		if m != method || n == 0 {
			return true, nil
		}
		n--
		return landed, errDisk
	}
}

var errDisk = errors.New("the disk is on fire")

package worker_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/agenda"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/logbook"
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
	log               logbook.Book

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
	ended     func(job.Snapshot, []byte)
	void      func(*job.Job)
	holds     worker.Holds
}

var policy = worker.Policy{
	BackoffMax: 5 * time.Minute, RetryAfterMax: time.Hour,
	CompletedTTL: 30 * time.Minute, FailedTTL: 2 * time.Hour, ResultMaxBytes: 16,
}

// directTimeout bounds attempts past the queue.
const directTimeout = 3 * time.Second

// streamWait is how long the end of a job waits for a stream.
const streamWait = 2 * time.Second

// newRig makes a node that does not run yet.
func newRig(t *testing.T, o options) *rig {
	t.Helper()
	r := &rig{t: t, disk: o.disk, target: o.target, receiver: o.receiver}
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
	logger := r.log.Logger()
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
	var told listeners = r.hub
	if o.listeners != nil {
		told = o.listeners(r.hub)
	}
	r.ending = worker.NewEnding(worker.EndingConfig{
		Ledger: r.Store, Listeners: told, Deliveries: r.deliveries, Ended: o.ended, Void: o.void, Holds: o.holds, Logger: logger,
	})
	r.agenda = agenda.New(agenda.Config{
		Store: r.Store, Calls: r.calls, Deliveries: r.deliveries, Sweep: 10 * time.Second, Logger: logger,
		Fail: func(ctx context.Context, s job.Snapshot) error { return r.ending.Expire(ctx, s, policy.FailedTTL) },
	})
	if o.wake == nil {
		o.wake = r.agenda.Wake
	}
	r.worker = worker.New(worker.Config{
		Store: r.Store, Sender: r.target, Ending: r.ending, Policy: policy, NodeID: "node-1", Wake: o.wake, Logger: logger,
		Timeout: func(string) time.Duration { return 2 * time.Minute }, DirectTimeout: directTimeout,
	})
	r.intake = intake.New(intake.Config{
		Store: r.Store, Calls: r.calls, Deliveries: r.deliveries, Wake: r.agenda.Wake,
		Admission: open{}, Draining: func() bool { return false },
		IDs: job.IDs{Tag: job.TagOf("node-1"), Rand: rand.Reader}, QueuedTTL: 24 * time.Hour,
	})
	return r
}

// open admits everything.
type open struct{}

func (open) Admit(int64) error                       { return nil }
func (open) Forgo(int64)                             {}
func (open) AdmitUser(*job.Request) error            { return nil }
func (open) AdmitDirect(queue.Load) bool             { return true }
func (open) AdmitJoined(queue.Load) (float64, error) { return 0, nil }

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
		q.RestoreWaiting(d.Lane, d.ID)
	}
}

// deliver is a turn of a delivery.
func (r *rig) deliver(t *queue.Turn) queue.Verdict {
	outcome, at := webhook.New(webhook.Config{
		Store: r.Store, Sender: r.receiver, Logger: slog.New(slog.DiscardHandler),
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

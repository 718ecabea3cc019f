package agenda_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/agenda"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/logbook"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// rig is an agenda with a store and queues that give no turns: what comes back waits in its lane.
type rig struct {
	t    *testing.T
	disk *storetest.Disk
	*view
	calls, deliveries *queue.Queue
	agenda            *agenda.Agenda
	log               logbook.Book
	fail              func(ctx context.Context, s job.Snapshot) error

	ids  uint64
	stop context.CancelFunc
	done chan struct{}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, disk: storetest.NewDisk(t)}
	s, err := r.disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	r.view = &view{Store: s}
	r.calls, r.deliveries = r.queue(job.Calls), r.queue(job.Deliveries)
	r.fail = r.finish
	r.agenda = agenda.New(agenda.Config{
		Store: r.view, Calls: r.calls, Deliveries: r.deliveries, Sweep: 10 * time.Second,
		Logger: r.log.Logger(),
		Fail:   func(ctx context.Context, s job.Snapshot) error { return r.fail(ctx, s) },
	})
	return r
}

func (r *rig) queue(l job.Line) *queue.Queue {
	return queue.New(queue.Config{
		Line: l, Backlog: r.Store, Window: 4, Settings: func(string) pace.Settings { return pace.Settings{RPS: 1, MaxConcurrent: 1} },
	})
}

// start runs the agenda until the end of the test or until halt.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		if err := r.agenda.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.t.Cleanup(r.halt)
}

func (r *rig) halt() {
	r.stop()
	<-r.done
}

// finish is what ends a job whose deadline passed. The delivery is settled at once: it is no matter of
// these tests.
func (r *rig) finish(ctx context.Context, s job.Snapshot) error {
	next, ok := s.State.Finish(job.End{
		Status: job.Failed, At: time.Now().UnixMilli(), Keep: time.Hour.Milliseconds(), Reason: string(job.DeadlineExceeded),
	})
	if !ok {
		return store.ErrStale
	}
	if _, err := r.Finish(ctx, store.Finish{Job: s.Job, Next: next}); err != nil {
		return err
	}
	return r.Settle(ctx, s.Job.ID, job.Webhook{State: job.WebhookDelivered})
}

// insert adds a job with a deadline and puts it into its lane.
func (r *rig) insert(deadline time.Time) *job.Job {
	r.t.Helper()
	j := r.job(deadline)
	place := r.calls.Reserve(j.Lane(), j.ID)
	got, err := r.Insert(r.t.Context(), j, store.Default)
	r.ok(err)
	place.Push(got.Entry, nil)
	r.agenda.Wake(deadline)
	return j
}

func (r *rig) job(deadline time.Time) *job.Job {
	r.ids++
	j := &job.Job{Deadline: deadline.UnixMilli(), CreatedAt: time.Now().UnixMilli(), Request: job.Request{
		UserID: "u", URL: "http://target.test/", Method: "POST", WebhookURL: "http://receiver.test/", MaxRetries: 4,
	}}
	binary.BigEndian.PutUint64(j.ID[8:], r.ids)
	j.Request.KeyName = j.ID.String()
	return j
}

// retry adds a job that waits for a retry. The agenda is not told.
func (r *rig) retry(due, deadline time.Time) *job.Job {
	r.t.Helper()
	j := r.job(deadline)
	got, err := r.Insert(r.t.Context(), j, store.Default)
	r.ok(err)
	begun, _ := job.State{}.Begin(1)
	r.ok(r.Begin(r.t.Context(), got.Entry, begun, time.Now()))
	next, ok := begun.Retry(job.Attempt{Number: 1, Status: 503}, due.UnixMilli())
	if !ok {
		r.t.Fatal("no retry")
	}
	r.ok(r.Retry(r.t.Context(), got.Entry, next))
	r.calls.RestoreWaiting(j.Lane(), j.ID)
	return j
}

// owed adds a job whose delivery waits for a retry. The agenda is not told.
func (r *rig) owed(due time.Time) *job.Job {
	r.t.Helper()
	j := r.job(time.Now().Add(time.Hour))
	_, err := r.Insert(r.t.Context(), j, store.Default)
	r.ok(err)
	next, _ := job.State{}.Finish(job.End{Status: job.Completed, At: time.Now().UnixMilli(), Keep: time.Hour.Milliseconds()})
	e, err := r.Finish(r.t.Context(), store.Finish{Job: j, Next: next})
	r.ok(err)
	r.ok(r.Postpone(r.t.Context(), e, job.Webhook{State: job.WebhookPending, Attempts: 1, DueAt: due.UnixMilli()}))
	r.deliveries.RestoreWaiting(j.WebhookLane(), j.ID)
	return j
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) state(j *job.Job) job.State {
	r.t.Helper()
	s, err := r.Get(r.t.Context(), j.ID)
	r.ok(err)
	return s.State
}

// waits reports whether the job stands in its lane, on the disk and in the queue.
func (r *rig) waits(j *job.Job) bool {
	r.t.Helper()
	s := r.state(j)
	_, ok, err := r.calls.Standing(r.t.Context(), job.Entry{Lane: j.Lane(), Order: s.Order, ID: j.ID})
	r.ok(err)
	if onDisk := s.Order != 0 && s.DueAt == 0; onDisk != ok {
		r.t.Errorf("job %s: on the disk %v, in the queue %v", j.ID, onDisk, ok)
	}
	return ok
}

// failed reports whether the job failed on its deadline.
func (r *rig) failed(j *job.Job) bool {
	r.t.Helper()
	return r.state(j).Reason == string(job.DeadlineExceeded)
}

// backlog checks how many calls are unfinished, and how many of them wait in their lane.
func (r *rig) backlog(all, waiting int) {
	r.t.Helper()
	if s := r.calls.Stats(); s.Backlog != all || s.Waiting != waiting {
		r.t.Errorf("calls %+v, want %d, of them %d waiting", s, all, waiting)
	}
}

// view is a store as one sees it whose clock is off, and that counts.
type view struct {
	store.Store
	// onDue is called with each reading of what is due; an error is returned.
	onDue func() error
	// onExpire stands in for the removal of what has expired.
	onExpire func(limit int) int

	mu  sync.Mutex // guards what follows
	off time.Duration
	// dues and expires count calls, gone the jobs that were removed.
	dues, expires, gone int
}

// jump makes the wall clock jump: what the store takes for now is so much later than it was.
func (v *view) jump(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.off += d
}

func (v *view) Due(ctx context.Context, now time.Time, limit int) ([]store.Due, time.Time, error) {
	v.mu.Lock()
	v.dues++
	off := v.off
	v.mu.Unlock()
	if v.onDue != nil {
		if err := v.onDue(); err != nil {
			return nil, time.Time{}, err
		}
	}
	due, next, err := v.Store.Due(ctx, now.Add(off), limit)
	if !next.IsZero() {
		next = next.Add(-off)
	}
	return due, next, err
}

func (v *view) Expire(ctx context.Context, now time.Time, limit int) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expires++
	if v.onExpire != nil {
		return v.onExpire(limit), nil
	}
	n, err := v.Store.Expire(ctx, now, limit)
	v.gone += n
	return n, err
}

func (v *view) removed() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gone
}

// looks returns how often it was read what is due since the last call.
func (v *view) looks() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.dues
	v.dues = 0
	return n
}

package intake_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

const (
	queuedTTL = 24 * time.Hour
	keep      = time.Hour // how long ended jobs are kept
)

// rig is an intake with a store and queues that do not run.
type rig struct {
	t    *testing.T
	disk *storetest.Disk
	store.Store
	calls, deliveries *queue.Queue
	intake            *intake.Intake

	mu       sync.Mutex // guards what follows
	admitted int
	bytes    int64 // that the store will take, as far as Admission knows
	woken    []time.Time
	// refusal is what Admit says.
	refusal error
	// userRefusals are what AdmitUser says; budget is how many jobs a target may have, 0 for any number.
	userRefusals map[string]error
	budget       int
}

func newRig(t *testing.T, edit ...func(*intake.Config)) *rig {
	t.Helper()
	r := &rig{t: t, disk: storetest.NewDisk(t)}
	var err error
	if r.Store, err = r.disk.Open(); err != nil {
		t.Fatal(err)
	}
	r.calls, r.deliveries = r.queue(job.Calls), r.queue(job.Deliveries)
	c := intake.Config{
		Store: r.Store, Calls: r.calls, Deliveries: r.deliveries, QueuedTTL: queuedTTL,
		IDs:       job.IDs{Tag: job.TagOf("node-1"), Rand: rand.Reader},
		Draining:  func() bool { return false },
		Admission: r,
		Wake: func(at time.Time) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.woken = append(r.woken, at)
		},
	}
	for _, e := range edit {
		e(&c)
	}
	r.intake = intake.New(c)
	return r
}

// Admit is intake.Admission.
func (r *rig) Admit(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admitted++
	if r.refusal == nil {
		r.bytes += bytes
	}
	return r.refusal
}

// Forgo is intake.Admission.
func (r *rig) Forgo(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= bytes
}

// AdmitUser is intake.Admission.
func (r *rig) AdmitUser(q *job.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.userRefusals[q.UserID]
}

// AdmitDirect is intake.Admission.
func (r *rig) AdmitDirect(l queue.Load) bool { return r.budget == 0 || l.TargetBacklog <= r.budget }

// AdmitJoined is intake.Admission.
func (r *rig) AdmitJoined(l queue.Load) (float64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.budget > 0 && l.TargetBacklog > r.budget {
		return 1, fault.New(fault.Overloaded, "the target is full")
	}
	return 0.5, nil
}

func (r *rig) queue(l job.Line) *queue.Queue {
	return queue.New(queue.Config{
		Line: l, Backlog: r.Store, Settings: fast,
	})
}

func fast(string) pace.Settings { return pace.Settings{RPS: 1000, MaxConcurrent: 1000} }

// request is a valid job.
func request(user, key string, edit ...func(*job.Request)) *job.Request {
	q := &job.Request{
		UserID: user, KeyName: key, URL: "http://target.test/path", Method: "POST", Body: []byte(`{"n":1}`),
		Headers:    []job.Header{{Name: "Accept", Value: "text/plain"}, {Name: "X-Api-Key", Value: "secret"}},
		WebhookURL: "http://receiver.test/hook", MaxRetries: 4, TimeoutMS: job.UnsetTimeout,
	}
	for _, e := range edit {
		e(q)
	}
	return q
}

func body(s string) func(*job.Request) { return func(q *job.Request) { q.Body = []byte(s) } }

func (r *rig) submit(q *job.Request) (intake.Receipt, error) {
	return r.intake.Submit(r.t.Context(), intake.Submission{Request: q})
}

// accepted submits what must be accepted.
func (r *rig) accepted(q *job.Request) intake.Receipt {
	r.t.Helper()
	got, err := r.submit(q)
	r.ok(err)
	return got
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// fails checks that an error is a fault of a kind.
func (r *rig) fails(err error, kind fault.Kind) *fault.Error {
	r.t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind {
		r.t.Fatalf("got %v, want a fault of kind %s", err, kind)
	}
	return f
}

func (r *rig) get(id job.ID) job.Snapshot {
	r.t.Helper()
	s, err := r.Get(r.t.Context(), id)
	r.ok(err)
	return s
}

// end brings a job, which is not in the queue any more then, to its end; settled says that its
// delivery is over.
func (r *rig) end(id job.ID, status job.Status, settled bool) {
	r.t.Helper()
	s := r.get(id)
	next, ok := s.State.Finish(job.End{Status: status, At: time.Now().UnixMilli(), Keep: keep.Milliseconds()})
	if !ok {
		r.t.Fatalf("cannot end %+v", s.State)
	}
	_, err := r.Finish(r.t.Context(), store.Finish{Job: s.Job, Next: next})
	r.ok(err)
	if settled {
		r.ok(r.Settle(r.t.Context(), id, job.Webhook{State: job.WebhookFailed}))
	}
	if !r.calls.Withdraw(job.Entry{Lane: s.Job.Lane(), Order: s.State.Order, ID: id}) {
		r.t.Fatalf("job %s is not in the queue", id)
	}
	r.calls.Gone(s.Job.Lane(), id)
}

// backlog checks how much is in the queues and on the disk: the same, and each in one place.
func (r *rig) backlog(calls, deliveries int) {
	r.t.Helper()
	for name, q := range map[string]struct {
		*queue.Queue
		line job.Line
		want int
	}{"calls": {r.calls, job.Calls, calls}, "deliveries": {r.deliveries, job.Deliveries, deliveries}} {
		stored := 0
		for e, err := range r.Waiting(r.t.Context(), q.line) {
			r.ok(err)
			stored++
			if n, ok, err := q.Standing(r.t.Context(), e); !ok || err != nil || n.Position < 1 {
				r.t.Errorf("%s: %s is on the disk and not in the queue", name, e.ID)
			}
		}
		if s := q.Stats(); s.Backlog != q.want || s.Waiting != q.want || stored != q.want {
			r.t.Errorf("%s: %+v and %d stored, want %d", name, s, stored, q.want)
		}
	}
}

// hooked is a store in which something happens at a method.
type hooked struct {
	store.Store
	find   func()
	insert func(ctx context.Context) error
	get    func() error
	got    func() // after Get
}

func (h hooked) Find(ctx context.Context, key job.KeyHash) (store.Holder, error) {
	got, err := h.Store.Find(ctx, key)
	if h.find != nil {
		h.find()
	}
	return got, err
}

func (h hooked) Insert(ctx context.Context, j *job.Job, d store.Durability) (store.Inserted, error) {
	if h.insert != nil {
		if err := h.insert(ctx); err != nil {
			return store.Inserted{}, err
		}
	}
	return h.Store.Insert(ctx, j, d)
}

func (h hooked) Get(ctx context.Context, id job.ID) (job.Snapshot, error) {
	if h.get != nil {
		if err := h.get(); err != nil {
			return job.Snapshot{}, err
		}
	}
	s, err := h.Store.Get(ctx, id)
	if h.got != nil {
		h.got()
	}
	return s, err
}

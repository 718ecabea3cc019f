package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/logbook"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("disk on fire")

var policy = webhook.Policy{MaxAttempts: webhook.DefaultMaxAttempts, BackoffMax: 5 * time.Minute, RetryAfterMax: time.Hour}

// memory is one job in a store whose methods can be made to fail.
type memory struct {
	mu      sync.Mutex // the deliverer and the test look at it from two goroutines
	job     job.Snapshot
	payload []byte // nil: there is none
	// fail is asked before each method; an error makes the method do nothing.
	fail  func(method string) error
	calls []string
}

func (m *memory) enter(method string) error {
	m.calls = append(m.calls, method)
	if m.fail == nil {
		return nil
	}
	return m.fail(method)
}

func (m *memory) Get(context.Context, job.ID) (job.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.job, m.enter("get")
}

func (m *memory) Payload(context.Context, job.ID) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.payload == nil {
		return nil, store.ErrNotFound
	}
	return m.payload, m.enter("payload")
}

func (m *memory) Postpone(ctx context.Context, _ job.Entry, next job.Webhook) error {
	return m.write(ctx, "postpone", next)
}

func (m *memory) Settle(ctx context.Context, _ job.ID, next job.Webhook) error {
	return m.write(ctx, "settle", next)
}

func (m *memory) write(ctx context.Context, method string, next job.Webhook) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enter(method); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.job.Webhook = next
	return nil
}

// receiver answers each call with the next of its replies, the last one again and again.
type receiver struct {
	replies []webhook.Reply
	takes   time.Duration
	calls   []webhook.Call
	open    int
	most    int // calls open at once
}

func (r *receiver) Send(ctx context.Context, c webhook.Call) webhook.Reply {
	r.open++
	r.most = max(r.most, r.open)
	defer func() { r.open-- }()
	r.calls = append(r.calls, c)
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return webhook.Reply{Class: job.ConnReset}
	}
	reply := r.replies[0]
	if len(r.replies) > 1 {
		r.replies = r.replies[1:]
	}
	return reply
}

func answer(status int, headers ...string) webhook.Reply {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return webhook.Reply{Status: status, Header: h}
}

func header(c webhook.Call, name string) string {
	var value string
	for _, h := range slices.Concat(c.Headers, c.Extra) {
		if h.Name == name {
			value = h.Value
		}
	}
	return value
}

// rig is a deliverer with what it works on.
type rig struct {
	store    *memory
	receiver *receiver
	registry *prometheus.Registry
	log      logbook.Book
	*webhook.Deliverer
	released []pace.Signal
}

func newRig(s job.Snapshot, replies ...webhook.Reply) *rig {
	r := &rig{store: &memory{job: s}, receiver: &receiver{replies: replies}, registry: prometheus.NewRegistry()}
	r.Deliverer = webhook.New(webhook.Config{
		Store: r.store, Sender: r.receiver, Policy: policy, Registerer: r.registry,
		Logger: r.log.Logger(),
	})
	return r
}

// turn takes one turn, of a job that is not at hand.
func (r *rig) turn(ctx context.Context) (webhook.Outcome, time.Time) {
	return r.Deliver(ctx, webhook.Turn{
		Entry:   job.Entry{ID: testID, Order: 3},
		Headers: []job.Header{{Name: "X-Aqueduct-Total-Jobs", Value: "1"}},
		Release: func(s pace.Signal) { r.released = append(r.released, s) },
	})
}

// run takes turns as they come due until the delivery is settled, and returns the waits between.
func (r *rig) run(t *testing.T) (waits []time.Duration) {
	t.Helper()
	for {
		o, due := r.turn(t.Context())
		if o != webhook.Postponed {
			return waits
		}
		if due.UnixMilli() != r.store.job.Webhook.DueAt {
			t.Errorf("due at %v, stored %d", due, r.store.job.Webhook.DueAt)
		}
		waits = append(waits, time.Until(due))
		time.Sleep(time.Until(due))
	}
}

package intake_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestID04_Redrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		first := r.accepted(request("u", "k", func(q *job.Request) { q.ExecuteBefore = time.Now().Add(time.Minute).UnixMilli() }))
		_, err := r.intake.Redrive(t.Context(), first.ID)
		if f := r.fails(err, fault.Conflict); !strings.Contains(f.Detail, "queued") {
			t.Errorf("got %+v", f)
		}
		for _, status := range []job.Status{job.Completed, job.Failed} {
			id := first.ID
			if status == job.Failed {
				id = r.accepted(request("u", "other")).ID
			}
			r.end(id, status, false)
			before := r.get(id)
			time.Sleep(10 * time.Minute)
			got, err := r.intake.Redrive(t.Context(), id)
			r.ok(err)
			s := r.get(got.ID)
			if got.ID == id || got.RedriveOf != id || got.Duplicate || s.Job.RedriveOf != id || s.State.Phase() != job.Queued {
				t.Errorf("receipt %+v, %+v", got, s)
			}
			if want := time.Now().Add(queuedTTL).UnixMilli(); s.Job.Deadline != want || s.Job.Request.ExecuteBefore != 0 {
				t.Errorf("deadline %d, want %d", s.Job.Deadline, want)
			}
			if s.Job.Request.Payload() != before.Job.Request.Payload() || s.Job.Request.MaxRetries != before.Job.Request.MaxRetries {
				t.Errorf("it asks for something else: %+v", s.Job.Request)
			}
			r.end(got.ID, job.Completed, true)
		}
		if got := r.accepted(request("u", "k")); got.ID != first.ID {
			t.Errorf("the key belongs to %s", got.ID)
		}
		_, err = r.intake.Redrive(t.Context(), job.ID{1})
		r.fails(err, fault.NotFound)
	})
}

func TestRedeliver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		id := r.accepted(request("u", "k")).ID
		if f := r.fails(r.intake.Redeliver(t.Context(), id), fault.Conflict); !strings.Contains(f.Detail, "none") {
			t.Errorf("got %+v", f)
		}
		r.end(id, job.Completed, true)
		r.ok(r.intake.Redeliver(t.Context(), id))
		r.backlog(0, 1)
		if s := r.get(id).Webhook; s.State != job.WebhookPending {
			t.Errorf("got %+v", s)
		}
		// It is owed now, and waits in its queue: another one does not disturb it.
		r.fails(r.intake.Redeliver(t.Context(), id), fault.Conflict)
		r.backlog(0, 1)
		r.fails(r.intake.Redeliver(t.Context(), job.ID{1}), fault.NotFound)
	})
}

func TestParallelRedeliveries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		id := r.accepted(request("u", "k")).ID
		r.end(id, job.Completed, true)
		r.intake.Store = hooked{Store: r.Store, got: func() { time.Sleep(time.Second) }} // so all meet
		var done sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			done.Go(func() { errs[i] = r.intake.Redeliver(t.Context(), id) })
		}
		done.Wait()
		owed := 0
		for _, err := range errs {
			if err == nil {
				owed++
			} else {
				r.fails(err, fault.Conflict)
			}
		}
		if owed != 1 {
			t.Errorf("owed %d times", owed)
		}
		r.backlog(0, 1)
	})
}

package worker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// suspects makes a node that takes up n jobs whose next death would be their last one. Each attempt takes
// ten seconds.
func suspects(t *testing.T, n int, edit ...func(*job.Request)) (r *rig, ids []job.ID) {
	t.Helper()
	last := newRig(t, options{})
	for i := range n {
		id := last.submit(request("u", fmt.Sprint("suspect-", i), edit...))
		ids = append(ids, id)
		for range worker.MaxCrashes - 1 {
			s := last.get(id)
			next, _ := s.State.Begin(s.State.Tried + 1)
			last.ok(last.Begin(t.Context(), job.Entry{Lane: s.Job.Lane(), Order: s.State.Order, ID: id}, next, time.Now()))
			last.ok(last.Record(t.Context(), id, next.Interrupt(job.Attempt{Number: next.Tried})))
		}
	}
	r = successor(t, last)
	r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, 10*time.Second, answer(200)) }
	return r, ids
}

func TestSuspectsTakeTheirTurnsOneAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, ids := suspects(t, 3)
		r.start()
		defer r.stop()
		time.Sleep(time.Second)
		other := r.submit(request("u", "other"))
		r.settled()
		for _, id := range ids {
			if s := r.get(id).State; s.Phase() != job.Completed || len(s.Attempts) != worker.MaxCrashes {
				t.Errorf("got %+v", s)
			}
		}
		var sentAt []time.Duration
		calls := r.target.all()
		for _, c := range calls {
			if c.ID != other.String() {
				sentAt = append(sentAt, c.At.Sub(calls[0].At))
			}
		}
		if want := []time.Duration{0, 10 * time.Second, 20 * time.Second}; !slices.Equal(sentAt, want) {
			t.Errorf("they were sent after %v, want %v", sentAt, want)
		}
		if at := r.target.of(other)[0].At.Sub(calls[0].At); at > 2*time.Second {
			t.Errorf("another job was sent after %v", at)
		}
	})
}

// inTurn says which of two jobs was sent, and which was not.
func inTurn(r *rig, ids []job.ID) (sent, waited job.ID) {
	r.t.Helper()
	first, second := len(r.target.of(ids[0])), len(r.target.of(ids[1]))
	if first+second != 1 {
		r.t.Fatalf("they were sent %d and %d times", first, second)
	}
	return ids[second], ids[first]
}

// A suspect whose turn breaks the program lets the next one in.
func TestSuspectThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, ids := suspects(t, 2)
		r.target.script = func(context.Context, sent) dispatch.Outcome { panic("poison") }
		r.start()
		defer r.stop()
		r.settled()
		for _, id := range ids {
			if s := r.get(id).State; s.Reason != job.ReasonPanic {
				t.Errorf("got %+v", s)
			}
		}
	})
}

func TestDeadlineOfASuspectThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		at := time.Now().Add(5 * time.Second)
		r, ids := suspects(t, 2, before(at))
		r.start()
		defer r.stop()
		r.settled()
		sent, waited := inTurn(r, ids)
		if s := r.get(sent).State; s.Phase() != job.Completed {
			t.Errorf("the one that was sent: %+v", s)
		}
		if s := r.get(waited).State; s.Reason != string(job.DeadlineExceeded) || s.EndedAt != at.UnixMilli() {
			t.Errorf("the one that waited: %+v", s)
		}
	})
}

func TestStopWhileASuspectWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, ids := suspects(t, 2)
		r.start()
		time.Sleep(time.Second)
		start := time.Now()
		r.stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("stopping took %v", took)
		}
		sent, waited := inTurn(r, ids)
		for id, tried := range map[job.ID]int{sent: worker.MaxCrashes, waited: worker.MaxCrashes - 1} {
			if s := r.get(id).State; s.Phase() != job.Queued || s.Tried != tried || s.Crashes != worker.MaxCrashes-1 {
				t.Errorf("got %+v, want %d attempts", s, tried)
			}
		}
	})
}

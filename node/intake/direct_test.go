package intake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
)

// tries are the turns past the queue that were begun.
type tries []job.ID

func (tr *tries) Run(_ context.Context, t *queue.Turn) queue.Verdict {
	*tr = append(*tr, t.Entry.ID)
	return queue.Waits
}

// turning has turns start until the test ends or stop is called, past the queue: those in it end at once.
func (r *rig) turning() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() { done <- r.calls.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		r.ok(<-done)
	})
	synctest.Wait()
	return func() {
		cancel()
		synctest.Wait()
	}
}

// A job that may go past the queue is stored, told of, and then has its turn.
func TestAJobGoesPastTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.turning()
		r.budget = 1
		var begun tries
		var stored []job.ID
		s := intake.Submission{Request: request("u", "k"), Direct: &begun, Stored: func(id job.ID) {
			r.get(id)
			if len(begun) > 0 {
				t.Error("the turn began first")
			}
			stored = append(stored, id)
		}}
		got, err := r.intake.Submit(t.Context(), s)
		r.ok(err)
		synctest.Wait()
		if !got.Direct || got.Load != (intake.Load{}) || len(stored) != 1 || len(begun) != 1 || begun[0] != got.ID || !r.get(got.ID).Job.Direct {
			t.Errorf("%+v, told of %v, begun %v", got, stored, begun)
		}
		if again, err := r.intake.Submit(t.Context(), s); err != nil || !again.Duplicate || len(stored) != 1 {
			t.Errorf("the second time: %+v, %v", again, err)
		}
		// The first one waits now: who comes next has to join it.
		s.Request = request("u", "other")
		if _, err := r.intake.Submit(t.Context(), s); !fault.Is(err, fault.Overloaded) {
			t.Errorf("behind another job: %v", err)
		}
		s.DirectOnly = true
		if _, err := r.intake.Submit(t.Context(), s); !errors.Is(err, intake.ErrNotDirect) {
			t.Errorf("alone: %v", err)
		}
		if n := r.calls.Stats(); n.Backlog != 1 || n.InFlight != 0 {
			t.Errorf("left %+v", n)
		}
	})
}

// Past the queue there may be as much work as in it: what fails there joins it. And who may hand in nothing more may not do so
// there either.
func TestTurnsPastTheQueueAreAdmitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.turning()
		r.budget, r.userRefusals = 2, map[string]error{"owing": fault.New(fault.Overloaded, "too many deliveries")}
		ends := make(chan queue.Verdict)
		defer close(ends)
		submit := func(user, key string, only bool) (intake.Receipt, error) {
			return r.intake.Submit(t.Context(), intake.Submission{Request: request(user, key), Direct: held(ends), DirectOnly: only})
		}
		if got, err := submit("owing", "k", false); !fault.Is(err, fault.Overloaded) {
			t.Errorf("one who owes: %+v, %v", got, err)
		}
		for _, key := range []string{"a", "b"} {
			if got, err := submit("u", key, false); err != nil || !got.Direct {
				t.Errorf("%s: %+v, %v", key, got, err)
			}
		}
		if got, err := submit("u", "c", false); !fault.Is(err, fault.Overloaded) {
			t.Errorf("beyond the budget: %+v, %v", got, err)
		}
		if got, err := submit("u", "c", true); !errors.Is(err, intake.ErrNotDirect) {
			t.Errorf("beyond the budget, alone: %+v, %v", got, err)
		}
		if n := r.calls.Stats(); n.Backlog != 2 || n.InFlight != 2 {
			t.Errorf("%+v", n)
		}
		ends <- queue.Ended
		synctest.Wait()
		if got, err := submit("u", "c", true); err != nil || !got.Direct {
			t.Errorf("when one has ended: %+v, %v", got, err)
		}
	})
}

// held has turns last until it says how they end.
type held chan queue.Verdict

func (h held) Run(_ context.Context, t *queue.Turn) queue.Verdict {
	defer t.Release(pace.Signal{})
	return <-h
}

// A turn past the queue that was reserved for a key that turns out to be taken, or for a job that cannot be stored, is given
// back.
func TestATurnPastTheQueueThatIsNotNeeded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.intake.Store = hooked{Store: r.Store, insert: func(context.Context) error { return errors.New("disk on fire") }}
		r.turning()
		var begun tries
		if _, err := r.intake.Submit(t.Context(), intake.Submission{Request: request("u", "k"), Direct: &begun}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("it was answered with %v", err)
		}
		synctest.Wait()
		if n := r.calls.Stats(); n != (queue.Stats{}) || len(begun) != 0 || r.bytes != 0 {
			t.Errorf("left %+v, begun %v, %d bytes", n, begun, r.bytes)
		}
	})
}

// When the node stops as a job is stored, its turn past the queue does not begin: it waits for the next process, unless it was
// for that turn alone. Then it is refused, and its key is free in the region.
func TestATurnPastTheQueueThatComesTooLate(t *testing.T) {
	for _, only := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			others := &region{}
			r := newRig(t, others.in)
			stop := r.turning()
			r.intake.Store = hooked{Store: r.Store, insert: func(context.Context) error { stop(); return nil }}
			var begun tries
			got, err := r.intake.Submit(t.Context(), intake.Submission{Request: request("u", "k"), Direct: &begun, DirectOnly: only})
			if got.Direct || len(begun) != 0 || errors.Is(err, intake.ErrNotDirect) != only || !only && err != nil {
				t.Errorf("%+v, %v, begun %v", got, err, begun)
			}
			if only {
				others.hears(t, "claim k", "abandon k")
			} else {
				others.hears(t, "claim k", "stored k")
			}
		})
	}
}

// Nobody is told of a job that may leave no trace until it is known whether it does.
func TestAKeyThatIsJustBeingTried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.turning()
		var begun tries
		got, err := r.intake.Submit(t.Context(), intake.Submission{Request: request("u", "k"), Direct: &begun, DirectOnly: true})
		r.ok(err)
		_, err = r.submit(request("u", "k"))
		if f := r.fails(err, fault.Unavailable); f.RetryAfter != time.Second {
			t.Errorf("come again after %v", f.RetryAfter)
		}
		if s := r.get(got.ID); !s.Job.DirectOnly || !s.Job.Direct {
			t.Errorf("%+v", s.Job)
		}
	})
}

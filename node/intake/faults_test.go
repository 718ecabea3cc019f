package intake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// What the store says it could not add is never acknowledged. If it is there all the same it runs, and
// its caller, who comes again, finds it.
func TestInsertFails(t *testing.T) {
	tests := map[string]struct {
		err    error
		kind   fault.Kind
		detail string
	}{
		"a write fails":       {storetest.ErrDisk, fault.Unavailable, "the store cannot take the job now"},
		"the disk is full":    {fmt.Errorf("write: %w", store.ErrFull), fault.Unavailable, "the disk is full"},
		"the store is closed": {store.ErrClosed, fault.Draining, "the node is draining"},
	}
	for name, tt := range tests {
		for _, landed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/landed=%v", name, landed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t)
					r.disk.SetFault(storetest.Failing("Insert", 1, landed).With(tt.err))
					_, err := r.submit(request("u", "k"))
					if f := r.fails(err, tt.kind); f.Detail != tt.detail || (f.RetryAfter > 0) != (tt.kind == fault.Unavailable) {
						t.Errorf("got %+v", f)
					}
					count := map[bool]int{true: 1}[landed]
					r.backlog(count, 0)
					if len(r.woken) != count {
						t.Errorf("woken for %v", r.woken)
					}
					if got := r.accepted(request("u", "k")); got.Duplicate != landed {
						t.Errorf("the second time: %+v", got)
					}
					r.backlog(1, 0)
				})
			})
		}
	}
}

// A key whose holder cannot be read is a fault of ours, which coming again does not mend.
func TestKeyIsSpoiled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.disk.SetFault(storetest.Failing("Insert", 1, false).With(store.ErrCorrupt))
		_, err := r.submit(request("u", "k"))
		if f := r.fails(err, fault.Internal); f.RetryAfter != 0 || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("got %+v", f)
		}
		r.backlog(0, 0)
	})
}

// A job that was stored for a caller who hung up is not forgotten.
func TestCallerHangsUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.intake.Store = hooked{Store: r.Store, insert: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				return nil
			}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.intake.Submit(ctx, intake.Submission{Request: request("u", "k")}); err != nil {
			t.Errorf("got %v", err)
		}
		r.backlog(1, 0)

		_, err := r.intake.Submit(ctx, intake.Submission{Request: request("u", "other")})
		r.fails(err, fault.Unavailable) // nothing begins for one who is gone already
		r.backlog(1, 0)
	})
}

func TestReadsFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		first := r.accepted(request("u", "k"))
		back := time.Now().Add(5 * time.Second)
		r.intake.Store = hooked{Store: r.Store, get: func() error {
			if time.Now().Before(back) {
				return storetest.ErrDisk
			}
			return nil
		}}
		_, err := r.submit(request("u", "k"))
		r.fails(err, fault.Unavailable)
		_, err = r.intake.Redrive(t.Context(), first.ID)
		r.fails(err, fault.Unavailable)
		r.fails(r.intake.Redeliver(t.Context(), first.ID), fault.Unavailable)
		r.backlog(1, 0)

		// A write that fails, and then a read that would tell whether it landed.
		r.disk.SetFault(storetest.Failing("Insert", 1, true))
		_, err = r.submit(request("u", "other"))
		r.fails(err, fault.Unavailable)
		r.backlog(2, 0)
	})
}

func TestFindFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.ok(r.Close())
		_, err := r.submit(request("u", "k"))
		r.fails(err, fault.Draining)
		if r.admitted != 0 {
			t.Error("it was admitted")
		}
		if s := r.calls.Stats(); s.Backlog != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestOweFails(t *testing.T) {
	for _, landed := range []bool{false, true} {
		t.Run(fmt.Sprintf("landed=%v", landed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				id := r.accepted(request("u", "k")).ID
				r.end(id, job.Completed, true)
				r.disk.SetFault(storetest.Failing("Owe", 1, landed))
				r.fails(r.intake.Redeliver(t.Context(), id), fault.Unavailable)
				r.backlog(0, map[bool]int{true: 1}[landed])
				err := r.intake.Redeliver(t.Context(), id)
				if landed {
					r.fails(err, fault.Conflict)
				} else {
					r.ok(err)
				}
				r.backlog(0, 1)
			})
		})
	}
}

func TestRedriveFails(t *testing.T) {
	for _, landed := range []bool{false, true} {
		t.Run(fmt.Sprintf("landed=%v", landed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				id := r.accepted(request("u", "k")).ID
				r.end(id, job.Completed, true)
				r.disk.SetFault(storetest.Failing("Insert", 1, landed))
				_, err := r.intake.Redrive(t.Context(), id)
				r.fails(err, fault.Unavailable)
				r.backlog(map[bool]int{true: 1}[landed], 0)
			})
		})
	}
}

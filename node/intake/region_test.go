package intake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// region is one that answers as told, and notes what it is told.
type region struct {
	found, claimed *intake.Remote
	fails          error // what a claim fails with
	atClaim        func()
	told           []string
}

func (r *region) Find(context.Context, *job.Request) *intake.Remote {
	r.told = append(r.told, "find")
	return r.found
}

func (r *region) Claim(_ context.Context, j *job.Job) (*intake.Remote, error) {
	r.told = append(r.told, "claim "+j.Request.KeyName)
	if r.atClaim != nil {
		r.atClaim()
	}
	return r.claimed, r.fails
}

func (r *region) Stored(j *job.Job) { r.told = append(r.told, "stored "+j.Request.KeyName) }

func (r *region) Abandon(_ context.Context, j *job.Job) {
	r.told = append(r.told, "abandon "+j.Request.KeyName)
}

// in has a rig ask the region.
func (r *region) in(c *intake.Config) { c.Region = r }

// hears checks what the region was told, which it forgets.
func (r *region) hears(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.told, want) {
		t.Errorf("the region was told %q, want %q", r.told, want)
	}
	r.told = nil
}

// far is a job at another node.
func far(mismatch bool) *intake.Remote {
	return &intake.Remote{ID: job.ID{15: 7}, Status: job.Completed, ResultKey: "result:1", Mismatch: mismatch}
}

// isFar checks that a request was answered with the job at the other node.
func isFar(t *testing.T, got intake.Receipt, err error) {
	t.Helper()
	want := intake.Receipt{ID: job.ID{15: 7}, Status: job.Completed, Duplicate: true, ResultKey: "result:1"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestClaimIsWon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		far := &region{}
		r := newRig(t, far.in)
		far.atClaim = func() {
			if h, err := r.Find(t.Context(), request("u", "k").Key().Hash()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("stored before the claim: %+v, %v", h, err)
			}
		}
		got := r.accepted(request("u", "k"))
		far.hears(t, "claim k", "stored k")
		if got.Duplicate {
			t.Errorf("receipt %+v", got)
		}
		if again := r.accepted(request("u", "k")); again.ID != got.ID || !again.Duplicate || again.ResultKey != "" {
			t.Errorf("the second time: %+v", again)
		}
		far.hears(t) // this node knows its own
		r.backlog(1, 0)
	})
}

func TestClaimIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		there := &region{claimed: far(false)}
		r := newRig(t, there.in)
		got, err := r.submit(request("u", "k"))
		isFar(t, got, err)
		there.hears(t, "claim k")
		r.backlog(0, 0)
	})
}

func TestID02_OtherPayloadElsewhere(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict=%v", strict), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				there := &region{claimed: far(true), found: far(true)}
				r := newRig(t, there.in, func(c *intake.Config) { c.Strict = strict })
				for range 2 { // the second time it is refused before it claims
					got, err := r.submit(request("u", "k"))
					if strict {
						f := r.fails(err, fault.Mismatch)
						if want := `idempotent_key "k" is taken by job ` + (job.ID{15: 7}).String() + ", which asks for something else"; f.Detail != want {
							t.Errorf("got %q, want %q", f.Detail, want)
						}
					} else if err != nil || !got.PayloadMismatch || !got.Duplicate {
						t.Errorf("got %+v, %v", got, err)
					}
					r.refusal = fault.New(fault.Overloaded, "no room")
				}
				r.backlog(0, 0)
			})
		})
	}
}

func TestClaimFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		there := &region{fails: fault.New(fault.Unavailable, "another node is just accepting this key")}
		r := newRig(t, there.in)
		_, err := r.submit(request("u", "k"))
		r.fails(err, fault.Unavailable)
		there.hears(t, "claim k")
		r.backlog(0, 0)
		there.fails = nil
		r.accepted(request("u", "k"))
	})
}

// A key that became a job elsewhere is answered by a node that takes no new jobs too.
func TestKnownElsewhereUnderPressure(t *testing.T) {
	full := fault.New(fault.Overloaded, "no room")
	for name, refuse := range map[string]func(*rig){
		"the node is full":   func(r *rig) { r.refusal = full },
		"the user is full":   func(r *rig) { r.userRefusals = map[string]error{"u": full} },
		"the target is full": func(r *rig) { r.accepted(request("u", "first")); r.budget = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				there := &region{}
				r := newRig(t, there.in)
				refuse(r)
				there.told = nil
				got, err := r.submit(request("u", "k"))
				r.fails(err, fault.Overloaded)
				there.hears(t, "find")
				if loaded := got.Load != (intake.Load{}); loaded != (r.budget > 0) {
					t.Errorf("refused with the load %+v", got.Load)
				}
				there.found = far(false)
				got, err = r.submit(request("u", "k"))
				isFar(t, got, err)
				there.hears(t, "find")
			})
		})
	}
}

// A claim is given back if its job is certainly not stored, and only then.
func TestClaimOfWhatIsNotStored(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		landed bool
		told   string
	}{
		"a write fails":                 {storetest.ErrDisk, false, "abandon k"},
		"a write fails, and landed":     {storetest.ErrDisk, true, "stored k"},
		"the disk is full":              {store.ErrFull, false, "abandon k"},
		"the key is spoiled":            {store.ErrCorrupt, false, "abandon k"},
		"the store has failed":          {store.ErrFailed, false, ""},
		"the store is closed meanwhile": {store.ErrClosed, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				there := &region{}
				r := newRig(t, there.in)
				disk := storetest.Failing("Insert", 1, tt.landed).With(tt.err)
				r.disk.SetFault(disk)
				if tt.err == store.ErrClosed {
					r.intake.Store = hooked{Store: r.Store, get: func() error { return store.ErrClosed }}
				}
				if _, err := r.submit(request("u", "k")); err == nil {
					t.Error("it was accepted")
				}
				want := []string{"claim k"}
				if tt.told != "" {
					want = append(want, tt.told)
				}
				there.hears(t, want...)
			})
		})
	}
}

// Another caller of this node stores its job first. The claim is that job's too, and stays.
func TestClaimOfTwoCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		there := &region{}
		r := newRig(t, there.in)
		var first intake.Receipt
		there.atClaim = func() {
			there.atClaim = nil
			first = r.accepted(request("u", "k"))
		}
		if got := r.accepted(request("u", "k")); got.ID != first.ID || !got.Duplicate {
			t.Errorf("got %+v, want the job %s", got, first.ID)
		}
		there.hears(t, "claim k", "claim k", "stored k")
		r.backlog(1, 0)
	})
}

// A rerun has the key of its first run, and no claim on it.
func TestRedriveClaimsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		there := &region{}
		r := newRig(t, there.in)
		id := r.accepted(request("u", "k")).ID
		r.end(id, job.Completed, true)
		there.told, there.claimed, there.found = nil, far(false), far(false)
		if _, err := r.intake.Redrive(t.Context(), id); err != nil {
			t.Error(err)
		}
		r.refusal = fault.New(fault.Overloaded, "no room")
		_, err := r.intake.Redrive(t.Context(), id)
		r.fails(err, fault.Overloaded)
		there.hears(t)
	})
}

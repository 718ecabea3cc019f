package intake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// What was admitted and not stored takes no room: who asks for large jobs and is refused for what he has already must not
// keep others out.
func TestWhatIsNotStoredTakesNoRoom(t *testing.T) {
	for name, hinder := range map[string]func(r *rig){
		"the node refuses":    func(r *rig) { r.refusal = fault.New(fault.Overloaded, "no") },
		"the user is refused": func(r *rig) { r.userRefusals = map[string]error{"u": fault.New(fault.Overloaded, "no")} },
		"the target is full":  func(r *rig) { r.budget = 1 },
		"the store refuses": func(r *rig) {
			r.intake.Store = hooked{Store: r.Store, insert: func(context.Context) error { return store.ErrFull }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.accepted(request("u", "first"))
				before := r.bytes
				if before <= 0 {
					t.Fatalf("a stored job takes %d bytes", before)
				}
				hinder(r)
				if _, err := r.submit(request("u", "k")); err == nil {
					t.Fatal("accepted")
				}
				if r.bytes != before {
					t.Errorf("it takes %d bytes", r.bytes-before)
				}
			})
		})
	}
}

// Who comes again and again while the disk is full is told to wait longer and longer; the first job that is stored resets it.
func TestTheWaitForAFullDiskGrows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, full := newRig(t), true
		r.intake.Store = hooked{Store: r.Store, insert: func(context.Context) error {
			if full {
				return store.ErrFull
			}
			return nil
		}}
		for round := range 2 {
			full = true
			for i, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
				_, err := r.submit(request("u", fmt.Sprintf("k%d-%d", round, i)))
				f := r.fails(err, fault.Unavailable)
				if f.RetryAfter != want*time.Second || f.Limit == nil || f.Limit.Reason != "disk_full" {
					t.Errorf("refusal %d: %v, %+v", i, f.RetryAfter, f.Limit)
				}
			}
			full = false
			r.accepted(request("u", fmt.Sprint("fine-", round)))
		}
	})
}

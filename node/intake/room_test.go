package intake_test

import (
	"context"
	"testing"

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

package handoff_test

import (
	"testing"
	"testing/synctest"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// TestHeldWork: what the node is still at work on stays until it is done with it, and goes then.
func TestHeldWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a, b := w.nodes["a"], w.nodes["b"]
		a.add("u", 6)
		var held job.ID
		for id := range a.unfinished() {
			held = id
		}
		a.holds.Hold(held)
		settled, got := make(chan struct{}), make(chan handoff.Report)
		go func() {
			r, err := a.giver.Drain(t.Context(), settled)
			a.ok(err)
			got <- r
		}()
		synctest.Wait()
		if rest := a.unfinished(); len(rest) != 1 || rest[held] != 1 || len(b.unfinished()) != 5 {
			t.Errorf("with %s held, a has %v and b has %d jobs", held, rest, len(b.unfinished()))
		}
		a.holds.Free(held)
		close(settled)
		w.want(<-got, handoff.Report{Handed: 6})
		w.want(len(b.unfinished()), 6)
	})
}

// TestHoldsThatAreClosed: nothing is begun any more.
func TestHoldsThatAreClosed(t *testing.T) {
	h := handoff.NewHolds()
	begun, late := job.ID{1}, job.ID{2}
	if !h.Enter(begun) {
		t.Error("open holds refuse")
	}
	h.Close()
	if h.Enter(begun) || h.Enter(late) {
		t.Error("closed holds let work begin")
	}
	h.Hold(late)
	h.Free(late)
	h.Free(begun)
	var none *handoff.Holds
	if none.Hold(begun); !none.Enter(begun) {
		t.Error("a node that hands nothing over may not work")
	}
	none.Close()
	none.Free(begun)
}

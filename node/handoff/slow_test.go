package handoff_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// slow delivers after a time.
func slow(by time.Duration) link {
	return func(deliver func() *http.Response) (*http.Response, error) {
		time.Sleep(by)
		return deliver(), nil
	}
}

// TestSlowPeer: a peer that takes its time for each batch holds the work of no other one back.
func TestSlowPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		w.owners = byUser
		a := w.nodes["a"]
		for range 10 {
			a.add("b", 12)
			a.add("c", 12)
		}
		w.links["b"] = slow(3 * time.Second)
		r := a.drain(20 * time.Second)
		w.want(len(w.nodes["c"].unfinished()), 120)
		w.want(r.Handed, 120+len(w.nodes["b"].unfinished()))
		if n := len(w.nodes["b"].unfinished()); n < 40 { // 4 in a batch, 2 at a time
			t.Errorf("the slow one has got %d jobs", n)
		}
		w.want(a.drain(5*time.Minute).Left, 0)
		w.want(len(w.nodes["b"].unfinished()), 120)
		w.nodes["b"].queued()
		w.nodes["c"].queued()
	})
}

// TestSilentPeerInDoubt: while a peer does not say what it has, the others get what is theirs.
func TestSilentPeerInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		w.owners = byUser
		a := w.nodes["a"]
		a.add("b", 4)
		w.links["b"] = lost
		w.want(a.drain(time.Second), handoff.Report{Doubt: 4})
		w.links["b"] = func(func() *http.Response) (*http.Response, error) {
			time.Sleep(10 * time.Second)
			return nil, errCut
		}
		a.add("c", 8)
		w.want(a.drain(5*time.Second), handoff.Report{Handed: 8, Doubt: 4})
		w.want(len(w.nodes["c"].unfinished()), 8)
	})
}

// TestNextOwner: what a peer does not take goes to the next in line, and a job that comes after it goes there at once.
// When all have refused, each is asked again.
func TestNextOwner(t *testing.T) {
	for name, l := range map[string]link{
		"busy": status(http.StatusServiceUnavailable), "not dialed": undialed, "does not believe": status(http.StatusUnauthorized),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, "a", "b", "c")
				w.owners = func(*job.Job) []string { return []string{"b", "c"} }
				w.links["b"] = l
				a := w.nodes["a"]
				a.add("u", 40)
				w.want(a.drain(time.Minute), handoff.Report{Handed: 40})
				w.want(len(w.nodes["c"].unfinished()), 40)
				if n := w.sent["b"]; n > 2 {
					t.Errorf("b was sent %d batches", n)
				}
				a.add("u", 40)
				w.links["c"] = l
				time.AfterFunc(10*time.Second, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.links["c"] = sound
				})
				w.want(a.drain(time.Minute), handoff.Report{Handed: 40})
				w.want(len(w.nodes["c"].unfinished()), 80)
			})
		})
	}
}

// TestStoreThatFailsAtTheEnd: what a peer has said is recorded for no longer than a node that stops leaves for it.
func TestStoreThatFailsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		w.links["b"] = undialed
		a := w.nodes["a"]
		a.add("u", 4)
		a.disk.SetFault(storetest.Failing("Keep", 1<<20, false))
		start := time.Now()
		a.drain(time.Second)
		if over := time.Since(start) - time.Second; over > time.Second {
			t.Errorf("it went on for %v when time was up", over)
		}
	})
}

package handoff_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// leftInDoubt is a world whose node a has begun anew, after it offered n jobs to b over a link that left them in doubt.
func leftInDoubt(t *testing.T, n int, l link) (*world, *node) {
	w := newWorld(t, "a", "b")
	a := w.nodes["a"]
	a.add("u", n)
	w.links["b"] = l
	w.want(a.drain(time.Minute), handoff.Report{Doubt: n})
	a.start()
	return w, a
}

// TestTakenBackAndHandedBack: a peer hands work back just when patience with it ends. Each job is queued once.
func TestTakenBackAndHandedBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a := leftInDoubt(t, 4, mute)
		b := w.nodes["b"]
		w.links["b"] = lost
		a.beforeKeep = func() {
			w.owners = func(*job.Job) []string { return []string{"a"} }
			b.start()
			w.want(b.drain(time.Minute), handoff.Report{Handed: 4})
		}
		a.ok(a.giver.Resume(t.Context()))
		w.want(len(a.unfinished()), 4)
		w.want(a.offered(), 0)
		a.queued()
	})
}

// TestTakenBackOnABrokenDisk: what was kept by a change that seemed to have failed is queued, too.
func TestTakenBackOnABrokenDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a := w.nodes["a"]
		a.add("u", 6)
		w.links["b"] = lost
		a.drain(time.Minute)
		a.start()
		a.disk.SetFault(storetest.Failing("Keep", 2, true))
		a.ok(a.giver.Resume(t.Context()))
		w.want(len(a.unfinished()), 6)
		a.queued()
	})
}

// TestKeyIsTakenMeanwhile: a node that is back keeps the jobs whose keys the peer has given to others meanwhile, and
// queues them. One that stops counts each of them once.
func TestKeyIsTakenMeanwhile(t *testing.T) {
	for name, ask := range map[string]func(a *node){
		"a node that serves": func(a *node) { a.ok(a.giver.Resume(a.w.t.Context())); a.queued() },
		"a node that stops":  func(a *node) { a.w.want(a.drain(time.Minute), handoff.Report{Left: 3}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, a := leftInDoubt(t, 3, lost)
				b := w.nodes["b"]
				time.Sleep(time.Second)
				w.next = 0
				b.add("u", 3)
				w.links["b"] = sound
				ask(a)
				w.want(len(a.unfinished()), 3)
				w.want(a.offered(), 0)
			})
		})
	}
}

// TestStoppedWhenPatienceEnds: a node that stops takes nothing back any more. What is in doubt waits for the next start.
func TestStoppedWhenPatienceEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a := leftInDoubt(t, 4, mute)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		patience := time.After(a.giver.Patience + time.Second)
		w.links["b"] = func(func() *http.Response) (*http.Response, error) {
			select {
			case <-patience:
				stop()
			default:
			}
			return nil, errCut
		}
		a.ok(a.giver.Resume(ctx))
		w.want(a.offered(), 4)
	})
}

package handoff_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// byUser has a tenant's jobs go to the node of its name.
func byUser(j *job.Job) []string { return []string{j.Request.UserID} }

func TestWorkGoesToItsOwners(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		w.owners = byUser
		a, b, c := w.nodes["a"], w.nodes["b"], w.nodes["c"]
		a.add("b", 15)
		a.add("c", 9)
		before := map[job.ID]job.Snapshot{}
		for id := range a.unfinished() {
			before[id], _ = a.Get(t.Context(), id)
		}
		w.want(a.drain(time.Minute), handoff.Report{Handed: 24})
		w.want(len(a.unfinished())+a.offered(), 0)
		w.want(len(b.unfinished()), 15)
		w.want(len(c.unfinished()), 9)
		for _, n := range []*node{b, c} {
			n.queued()
			for id := range n.unfinished() {
				now, err := n.Get(t.Context(), id)
				n.ok(err)
				was := before[id]
				w.want(now.State.Tried, was.State.Tried)
				w.want(now.State.DueAt, was.State.DueAt)
				w.want(now.Job.Request.UserID, n.id)
				w.want(now.Job.Moves, 1)
				w.want(string(now.Job.Request.Body)+now.Job.Request.Headers[0].Value, "\xff\x00caf\xe9")
				if was.State.Phase().Ended() {
					body, err := n.Payload(t.Context(), id)
					n.ok(err)
					w.want(string(body), "whole")
				}
				if !wokenBy(n, now) {
					t.Errorf("nobody was woken for %s", id)
				}
			}
		}
	})
}

// wokenBy reports whether the clock of a node knows when a job comes due.
func wokenBy(n *node, s job.Snapshot) bool {
	want := map[int64]bool{}
	if !s.State.Phase().Ended() {
		want[s.Job.Deadline] = true
	}
	if s.State.DueAt != 0 {
		want[s.State.DueAt] = true
	}
	for _, at := range n.woken {
		delete(want, at.UnixMilli())
	}
	return len(want) == 0
}

func TestNobodyElseOwnsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.owners = func(*job.Job) []string { return nil }
		a := w.nodes["a"]
		a.add("a", 5)
		w.want(a.drain(time.Minute), handoff.Report{Left: 5})
		a.queued()
	})
}

// TestLinks has one node hand its jobs to another one over links that fail for a while.
func TestLinks(t *testing.T) {
	for name, l := range map[string]link{
		"sound": sound, "every batch comes twice": twice, "one answer is lost": first(mute, sound),
		"one request is lost": first(lost, sound), "not dialed once": first(undialed, sound),
		"busy once": first(status(http.StatusServiceUnavailable), sound), "too many once": first(status(http.StatusTooManyRequests), sound),
		"a proxy fails once": first(status(http.StatusBadGateway), sound), "an unreadable answer": first(status(http.StatusOK), sound),
		"redirected": first(status(http.StatusTemporaryRedirect), sound),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				w.links["b"] = l
				w.nodes["a"].add("u", 13)
				w.want(w.nodes["a"].drain(time.Minute), handoff.Report{Handed: 13})
				w.want(len(w.nodes["a"].unfinished())+w.nodes["a"].offered(), 0)
				w.want(len(w.nodes["b"].unfinished()), 13)
				w.nodes["b"].queued()
			})
		})
	}
}

// TestNotTaken has a peer that never takes anything: what it surely has not stays where it was.
func TestNotTaken(t *testing.T) {
	for name, l := range map[string]link{
		"not dialed": undialed, "busy": status(http.StatusServiceUnavailable), "too many": status(http.StatusTooManyRequests),
		"does not know the path": status(http.StatusNotFound), "does not believe": status(http.StatusUnauthorized),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				w.links["b"] = l
				a := w.nodes["a"]
				a.add("u", 13)
				w.want(a.drain(time.Minute), handoff.Report{Left: 13})
				w.want(len(a.unfinished()), 13)
				a.queued()
				a.start()
				a.queued()
			})
		})
	}
}

// TestUnfitBatch: what the peer cannot take together, it is given apart.
func TestUnfitBatch(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			w.links["b"] = first(status(code), sound)
			a := w.nodes["a"]
			a.add("u", 13)
			w.want(a.drain(time.Minute), handoff.Report{Handed: 13})
			w.want(len(w.nodes["b"].unfinished()), 13)
		})
	}
}

// TestUnfitJob: one job that the peer cannot take holds no other one back.
func TestUnfitJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a := w.nodes["a"]
		large := w.job("u")
		large.Request.Body = make([]byte, 1<<20) // and the batch is larger
		_, err := a.Insert(t.Context(), large, store.Default)
		a.ok(err)
		a.add("u", 13)
		w.want(a.drain(time.Minute), handoff.Report{Handed: 13, Left: 1})
		w.want(len(a.unfinished()), 1)
		w.want(len(w.nodes["b"].unfinished()), 13)
	})
}

// TestNobodyElse: the last node of a cluster does not read all that it has to find that nobody takes it.
func TestNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a := w.nodes["a"]
		a.add("u", 4)
		w.links["b"] = lost
		w.want(a.drain(time.Minute), handoff.Report{Doubt: 4})
		a.add("u", 13)
		w.alone, a.reads = true, 0
		delete(w.nodes, "b")
		began := time.Now()
		w.want(a.drain(time.Minute), handoff.Report{Left: 13, Doubt: 4})
		w.want(time.Since(began), time.Duration(0))
		w.want(a.reads, 0)
	})
}

// TestInDoubt: a batch of which nothing is known goes to no other peer, and the next process clears it up.
func TestInDoubt(t *testing.T) {
	for name, l := range map[string]link{"answers are lost": mute, "requests are lost": lost} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, "a", "b", "c")
				a, b, c := w.nodes["a"], w.nodes["b"], w.nodes["c"]
				w.links["b"] = l
				w.owners = func(*job.Job) []string { return []string{"b", "c"} }
				a.add("u", 17)
				r := a.drain(time.Minute)
				w.want(r.Handed+r.Doubt, 17)
				if r.Doubt == 0 || r.Doubt > 8 {
					t.Errorf("%d jobs are in doubt", r.Doubt)
				}
				w.want(len(c.unfinished()), r.Handed)
				w.want(a.offered(), r.Doubt)

				a.start()
				w.want(len(a.unfinished()), 0)
				w.links["b"] = sound
				a.ok(a.giver.Resume(t.Context()))
				w.want(len(a.unfinished())+a.offered(), 0)
				w.want(len(b.unfinished()), r.Doubt)
				b.queued()
				c.queued()
			})
		})
	}
}

// TestPatience: what a peer that is away may have is taken back in the end.
func TestPatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a := w.nodes["a"]
		a.add("u", 4)
		w.links["b"] = lost
		w.want(a.drain(time.Minute), handoff.Report{Doubt: 4})
		for _, there := range []bool{true, false} {
			a.start()
			began := time.Now()
			if !there {
				delete(w.nodes, "b")
			}
			a.ok(a.giver.Resume(t.Context()))
			if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute {
				t.Errorf("it took %v", took)
			}
			w.want(len(a.unfinished()), 4)
			w.want(a.offered(), 0)
			a.queued()
			if there {
				w.want(a.drain(time.Minute), handoff.Report{Doubt: 4})
			}
		}
	})
}

// TestFullPeer: what a peer has no room for stays, and goes when there is room.
func TestFullPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a, b := w.nodes["a"], w.nodes["b"]
		a.add("u", 13)
		b.refuse(errors.New("no room"))
		w.want(a.drain(time.Minute), handoff.Report{Left: 13})
		w.want(len(a.unfinished()), 13)
		a.queued()
		b.queued()
		time.AfterFunc(10*time.Second, func() { b.refuse(nil) })
		w.want(a.drain(time.Minute), handoff.Report{Handed: 13})
		b.queued()
	})
}

// TestFullPeerHolds: a peer without room still says what it holds.
func TestFullPeerHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a, b := w.nodes["a"], w.nodes["b"]
		a.add("u", 3)
		w.links["b"] = first(mute, func(deliver func() *http.Response) (*http.Response, error) {
			b.refuse(errors.New("drains"))
			return deliver(), nil
		})
		w.want(a.drain(time.Minute), handoff.Report{Handed: 3})
		w.want(len(b.unfinished()), 3)
	})
}

// TestPeerDrains: the next owner gets the work, also when the first one hands on what it had got.
func TestPeerDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		a, b, c := w.nodes["a"], w.nodes["b"], w.nodes["c"]
		w.owners = func(*job.Job) []string { return []string{"b", "c"} }
		a.add("u", 6)
		w.links["b"] = mute
		w.want(a.drain(time.Second).Doubt > 0, true) // b has taken it, and a does not know
		b.start()
		b.refuse(errors.New("drains"))
		w.out["b"], w.links["b"] = true, sound
		had := len(b.unfinished())
		w.want(b.drain(time.Minute), handoff.Report{Handed: had})
		b.start()
		a.start()
		a.ok(a.giver.Resume(t.Context()))
		a.drain(time.Minute)
		w.want(len(a.unfinished())+a.offered()+len(b.unfinished()), 0)
		w.want(len(c.unfinished()), 6)
		c.queued()
	})
}

// TestThereAndBack: a job that comes back to where it was is taken, whatever is remembered of it there.
func TestThereAndBack(t *testing.T) {
	for name, l := range map[string]link{"forgotten": sound, "in doubt": mute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				a, b := w.nodes["a"], w.nodes["b"]
				a.add("u", 3)
				w.links["b"] = l
				a.drain(time.Second)
				a.start()
				w.links["b"] = sound
				w.owners = func(*job.Job) []string { return []string{"a"} }
				w.want(b.drain(time.Minute), handoff.Report{Handed: 3})
				w.want(len(a.unfinished()), 3)
				a.queued()
				a.ok(a.giver.Resume(t.Context()))
				w.want(len(a.unfinished()), 3)
				w.want(len(b.unfinished())+a.offered()+b.offered(), 0)
			})
		})
	}
}

// TestKeyIsTaken: a job whose key another job has at the peer stays, and the rest goes.
func TestKeyIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a, b := w.nodes["a"], w.nodes["b"]
		w.next = 100
		b.add("u", 1)
		time.Sleep(time.Second)
		w.next = 99
		a.add("u", 3) // the second one of them has the key
		w.want(a.drain(time.Minute), handoff.Report{Handed: 2, Left: 1})
		w.want(len(a.unfinished()), 1)
		w.want(len(b.unfinished()), 3)
		b.queued()
	})
}

// TestBrokenDisks has every change of a hand-off fail for a while, with and without effect.
func TestBrokenDisks(t *testing.T) {
	for _, landed := range []bool{false, true} {
		for _, method := range []string{"Offer", "Forget", "Keep", "Adopt"} {
			for _, times := range []int{1, 3, 1000} {
				t.Run(method, func(t *testing.T) {
					bubble(t, func(t *testing.T) { brokenDisk(t, method, times, landed) })
				})
			}
		}
	}
}

func brokenDisk(t *testing.T, method string, times int, landed bool) {
	w := newWorld(t, "a", "b")
	a, b := w.nodes["a"], w.nodes["b"]
	a.add("u", 13)
	if method == "Keep" {
		w.links["b"] = first(status(http.StatusServiceUnavailable), sound)
	}
	for _, n := range w.nodes {
		n.disk.SetFault(storetest.Failing(method, times, landed))
	}
	a.drain(time.Minute)
	b.queued()
	for _, n := range w.nodes {
		n.disk.SetFault(nil)
		n.start()
	}
	w.once(13)
	a.ok(a.giver.Resume(t.Context()))
	w.want(a.drain(time.Minute).Left, 0)
	w.want(len(a.unfinished())+a.offered(), 0)
	w.want(len(b.unfinished()), 13)
	b.queued()
}

// once expects that no job stands at two nodes, and that none is lost.
func (w *world) once(jobs int) {
	w.t.Helper()
	stands, known := map[job.ID]int{}, map[job.ID]bool{}
	for _, n := range w.nodes {
		for id, times := range n.unfinished() {
			stands[id] += times
			known[id] = true
		}
		for o, err := range n.Offers(w.t.Context()) {
			n.ok(err)
			known[o.Job.ID] = true
		}
	}
	for id, times := range stands {
		if times > 1 {
			w.t.Fatalf("job %s stands in %d places", id, times)
		}
	}
	w.want(len(known), jobs)
}

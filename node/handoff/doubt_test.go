package handoff_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// TestUnfitJobInDoubt: a job that the peer cannot read holds no other one back of those that are in doubt, nor fresh
// ones. It alone stays in doubt.
func TestUnfitJobInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a, b := w.nodes["a"], w.nodes["b"]
		a.add("u", 3)
		a.add("strange", 1)
		w.links["b"] = mute
		w.want(a.drain(time.Minute), handoff.Report{Doubt: 4})
		w.links["b"], w.unfit["b"] = sound, "strange"
		a.add("u", 5)
		w.want(a.drain(time.Minute), handoff.Report{Handed: 8, Doubt: 1})
		w.want(len(b.unfinished()), 9)
		w.want(a.offered(), 1)
	})
}

// TestUnfitJobIsResumed: what the peer has of a batch that it cannot read whole is not run here after patience has ended.
func TestUnfitJobIsResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a := w.nodes["a"]
		a.add("u", 3)
		a.add("strange", 1)
		w.links["b"] = mute
		w.want(a.drain(time.Minute), handoff.Report{Doubt: 4})
		a.start()
		w.links["b"], w.unfit["b"] = sound, "strange"
		a.ok(a.giver.Resume(t.Context()))
		w.want(len(a.unfinished()), 1) // the strange one
		w.want(a.offered(), 0)
	})
}

// TestOffersThatCannotBeRead: a disk that cannot be read when patience ends is asked again, and does not end the node.
func TestOffersThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a := leftInDoubt(t, 4, lost)
		patience := time.Now().Add(a.giver.Patience)
		reads := 0
		a.unread = func() bool {
			if time.Now().Before(patience) {
				return false
			}
			reads++
			return reads < 10 && reads%2 == 0 // what is in doubt is read, and then what is to be taken back is not
		}
		a.ok(a.giver.Resume(t.Context()))
		if reads < 10 {
			t.Errorf("offers were read %d times", reads)
		}
		a.queued()
		if n := len(a.unfinished()); n != 4 {
			t.Errorf("%d jobs were taken back", n)
		}
	})
}

// TestFullPeerTellsOfAll: a peer without room is asked about all that is in doubt, also after what it has not and does
// not take. What it has is not taken back.
func TestFullPeerTellsOfAll(t *testing.T) {
	for name, from := range map[string]int{"it has the first batch": 0, "it has the last batch": 4} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				a, b := w.nodes["a"], w.nodes["b"]
				a.add("u", 8)
				var work []store.Handed
				for h, err := range a.Unfinished(t.Context()) {
					a.ok(err)
					work = append(work, h)
				}
				offered, err := a.Offer(t.Context(), "b", work)
				a.ok(err)
				w.want(len(offered), 8)
				w.want(b.post(encode(t, body{Version: 1, Work: work[from : from+4]})).Code, http.StatusOK)
				b.refuse(errors.New("no room"))
				a.start()
				a.ok(a.giver.Resume(t.Context()))
				w.want(len(a.unfinished()), 4)
				w.once(8)
			})
		})
	}
}

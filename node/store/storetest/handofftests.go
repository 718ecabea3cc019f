package storetest

import (
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func handOffTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"HandOff/offered work stands nowhere":         offerAll,
		"HandOff/kept work is where it was":           keepAll,
		"HandOff/forgotten work was here":             forgetAll,
		"HandOff/departures are remembered for long":  forgetDepartures,
		"HandOff/what changed is not offered":         offerChanged,
		"HandOff/an offer ends for its peer only":     offerPeers,
		"HandOff/adopted work is as it was":           adoptAll,
		"HandOff/adopted work goes on":                adoptGoesOn,
		"HandOff/adopted twice":                       adoptTwice,
		"HandOff/adopted by many at a time":           adoptTogether,
		"HandOff/a key is taken":                      adoptTaken,
		"HandOff/a rerun claims no key":               adoptRerun,
		"HandOff/jobs of one batch":                   adoptBatch,
		"HandOff/a copy that comes back":              adoptBack,
		"HandOff/an older copy that is not settled":   adoptUnsettled,
		"HandOff/an ended copy is held":               adoptEnded,
		"HandOff/adopted places come in their orders": adoptOrders,
	}
}

// everyKind adds work of each kind that can be offered, under its name.
func (h *harness) everyKind() map[string]*work {
	h.t.Helper()
	all := map[string]*work{"new": h.add(), "due": h.add(), "tried": h.add(), "shared": h.add(func(j *job.Job) { j.Shared = true })}
	for _, name := range []string{"due", "tried"} {
		h.begin(all[name])
		h.retry(all[name], time.Minute)
	}
	h.requeue(all["tried"])
	all["owed"], _ = h.done()
	w, e := h.done()
	h.postpone(e, time.Minute)
	all["owed and due"] = w
	w, e = h.done()
	_, err := h.s.Requeue(h.ctx, h.postpone(e, time.Minute))
	h.ok(err)
	all["owed and tried"] = w
	w = h.add()
	h.begin(w)
	f := w.ending()
	f.Payload = []byte("whole body")
	f.Next.Result.Truncated = true
	_, err = h.s.Finish(h.ctx, f)
	h.ok(err)
	all["owed with a payload"] = w
	return all
}

// unfinished returns what can be offered, by id.
func (h *harness) unfinished() map[job.ID]store.Handed {
	h.t.Helper()
	all := make(map[job.ID]store.Handed)
	for x, err := range h.s.Unfinished(h.ctx) {
		h.ok(err)
		if _, twice := all[x.Job.ID]; twice {
			h.t.Fatalf("job %s is unfinished twice", x.Job.ID)
		}
		all[x.Job.ID] = x
	}
	return all
}

func (h *harness) offers() map[job.ID]store.Offered {
	h.t.Helper()
	all := make(map[job.ID]store.Offered)
	for x, err := range h.s.Offers(h.ctx) {
		h.ok(err)
		all[x.Job.ID] = x
	}
	return all
}

// offer offers all that can be offered, or the work of the ids.
func (h *harness) offer(peer string, ids ...job.ID) []store.Handed {
	h.t.Helper()
	var list []store.Handed
	for id, x := range h.unfinished() {
		if len(ids) == 0 || slices.Contains(ids, id) {
			list = append(list, x)
		}
	}
	taken, err := h.s.Offer(h.ctx, peer, list)
	h.ok(err)
	h.equal(taken, list)
	return taken
}

// keep keeps all that is offered to a peer.
func (h *harness) keep(peer string) {
	h.t.Helper()
	var list []store.Handed
	for _, x := range h.offers() {
		if x.Peer == peer {
			list = append(list, x.Handed)
		}
	}
	h.keeps(peer, list, list)
}

// keeps keeps work, and expects that so much of it stands where it was.
func (h *harness) keeps(peer string, list, want []store.Handed) {
	h.t.Helper()
	got, err := h.s.Keep(h.ctx, peer, list)
	h.ok(err)
	h.equal(len(got), len(want))
	for i, x := range want {
		h.equal(got[i], x)
	}
}

func (h *harness) adopt(list ...store.Handed) []store.Verdict {
	h.t.Helper()
	judged, err := h.s.Judge(h.ctx, list)
	h.ok(err)
	got, err := h.s.Adopt(h.ctx, list)
	h.ok(err)
	var verdicts []store.Verdict
	for i, a := range got {
		verdicts = append(verdicts, a.Verdict)
		if judged[i].Verdict != a.Verdict {
			h.t.Errorf("job %s was judged as %v and is %v", list[i].Job.ID, judged[i].Verdict, a.Verdict)
		}
		if a.Verdict != store.Adopted {
			h.equal(a.Entry, job.Entry{})
			continue
		}
		if place := list[i].Place(); a.Entry.ID != place.ID || a.Entry.Lane != place.Lane || (a.Entry.Order == 0) != (list[i].DueAt() != 0) {
			h.t.Errorf("job %s was adopted at %+v", list[i].Job.ID, a.Entry)
		}
		if !slices.Contains(h.ids, list[i].Job.ID) {
			h.ids = append(h.ids, list[i].Job.ID)
		}
	}
	return verdicts
}

// next is the copy that the holder after the next one has.
func next(x store.Handed) store.Handed { return store.NewHanded(x.Snapshot(), x.Payload) }

// nothingWaits fails the test if any work stands in a place.
func (h *harness) nothingWaits() {
	h.t.Helper()
	calls, deliveries, err := places(h.ctx, h.s)
	h.ok(err)
	h.equal(len(calls)+len(deliveries), 0)
	due, _ := h.due(time.Now().Add(1000*time.Hour), 100)
	h.equal(len(due), 0)
	h.equal(len(h.unfinished()), 0)
}

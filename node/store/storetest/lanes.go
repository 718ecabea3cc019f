package storetest

import (
	"fmt"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func laneTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Lanes/in order, in parts":      laneParts,
		"Lanes/do not mix":              lanesApart,
		"Lanes/ahead":                   laneAhead,
		"Lanes/all that waits":          laneWaiting,
		"Lanes/front is gone":           laneFront,
		"Lanes/orders appear in order":  lanesInOrder,
		"Lanes/iteration can be broken": laneBreak,
	}
}

func laneParts(h *harness) {
	var want []job.Entry
	for range 7 {
		want = append(want, h.add().entry)
	}
	lane := want[0].Lane
	for limit := 1; limit <= 8; limit++ {
		var got []job.Entry
		after := job.Order(0)
		for {
			part, err := h.s.Lane(h.ctx, job.Calls, lane, after, limit)
			h.ok(err)
			if len(part) == 0 {
				break
			}
			got = append(got, part...)
			after = part[len(part)-1].Order
		}
		h.equal(got, want)
	}
	part, err := h.s.Lane(h.ctx, job.Calls, lane, 0, 0)
	h.ok(err)
	h.equal(len(part), 0)
	part, err = h.s.Lane(h.ctx, job.Calls, lane, ^job.Order(0), 1)
	h.ok(err)
	h.equal(len(part), 0)
}

func lanesApart(h *harness) {
	plain := func(j *job.Job) { j.Request.Headers = nil } // its call and its delivery have one tenant
	all := []*work{
		h.add(target("http://a.test/")), h.add(target("http://a.test:81/")), h.add(target("https://a.test/")),
		h.add(target("http://a.tes/")), h.add(target("http://a.test/"), user("other")),
		h.add(target("http://receiver.test/"), plain),
	}
	for _, w := range all {
		h.equal(h.lane(job.Calls, w.Lane()), []job.ID{w.ID})
		h.equal(h.lane(job.Deliveries, w.Lane()), []job.ID(nil))
	}
	ended, e := h.done(target("http://receiver.test/"), plain)
	h.equal(h.lane(job.Deliveries, e.Lane), []job.ID{ended.ID})
	h.equal(h.lane(job.Calls, e.Lane), []job.ID{all[5].ID})
}

func laneAhead(h *harness) {
	var all []job.Entry
	for range 5 {
		all = append(all, h.add().entry)
	}
	for _, test := range []struct {
		after, before job.Order
		limit, want   int
	}{
		{0, all[0].Order, 10, 0},
		{0, all[3].Order, 10, 3},
		{all[0].Order, all[3].Order, 10, 2},
		{all[2].Order, all[3].Order, 10, 0},
		{all[3].Order, all[2].Order, 10, 0},
		{0, ^job.Order(0), 10, 5},
		{0, ^job.Order(0), 3, 3},
		{0, ^job.Order(0), 0, 0},
	} {
		n, err := h.s.Ahead(h.ctx, job.Calls, all[0].Lane, test.after, test.before, test.limit)
		h.ok(err)
		if n != test.want {
			h.t.Fatalf("%+v: got %d", test, n)
		}
	}
}

func laneWaiting(h *harness) {
	perLane := map[job.Lane][]job.ID{}
	for i := range 30 {
		w := h.add(target(fmt.Sprintf("http://t%d.test/", i%3)), user(fmt.Sprintf("u%d", i%2)))
		perLane[w.Lane()] = append(perLane[w.Lane()], w.ID)
	}
	done, _ := h.done()
	got := map[job.Lane][]job.ID{}
	var last job.Lane
	for e, err := range h.s.Waiting(h.ctx, job.Calls) {
		h.ok(err)
		if e.Lane != last && got[e.Lane] != nil {
			h.t.Fatalf("lane %v is visited twice", e.Lane)
		}
		last = e.Lane
		got[e.Lane] = append(got[e.Lane], e.ID)
	}
	h.equal(got, perLane)
	var deliveries []job.ID
	for e, err := range h.s.Waiting(h.ctx, job.Deliveries) {
		h.ok(err)
		deliveries = append(deliveries, e.ID)
	}
	h.equal(deliveries, []job.ID{done.ID})
}

func laneFront(h *harness) {
	var all []*work
	for range 20 {
		all = append(all, h.add())
	}
	for _, w := range all[:15] {
		h.finish(w)
	}
	part, err := h.s.Lane(h.ctx, job.Calls, all[0].Lane(), 0, 2)
	h.ok(err)
	h.equal(part, []job.Entry{all[15].entry, all[16].entry})
}

// lanesInOrder reads while others add: what was not there when an entry was seen must have a higher order.
func lanesInOrder(h *harness) {
	lanes := []job.Lane{h.add(target("http://t0.test/")).Lane(), h.add(target("http://t1.test/")).Lane()}
	var adding sync.WaitGroup
	var jobs []*job.Job
	for i := range 200 {
		jobs = append(jobs, h.job(target(fmt.Sprintf("http://t%d.test/", i%2))))
	}
	errs := make([]error, len(jobs))
	for worker := range 4 {
		adding.Go(func() {
			for i := worker; i < len(jobs); i += 4 {
				_, errs[i] = h.s.Insert(h.ctx, jobs[i], store.Default)
			}
		})
	}
	type sight struct{ highest, count job.Order }
	var seen []sight
	for range 50 {
		first, err := h.s.Lane(h.ctx, job.Calls, lanes[0], 0, 1000)
		h.ok(err)
		highest := first[len(first)-1].Order
		second, err := h.s.Lane(h.ctx, job.Calls, lanes[1], 0, 1000)
		h.ok(err)
		n := len(first)
		for _, e := range second {
			if e.Order < highest {
				n++
			}
		}
		seen = append(seen, sight{highest, job.Order(n)})
	}
	adding.Wait()
	for i, j := range jobs {
		h.ok(errs[i])
		h.ids = append(h.ids, j.ID)
	}
	for _, s := range seen {
		below := job.Order(0)
		for _, lane := range lanes {
			n, err := h.s.Ahead(h.ctx, job.Calls, lane, 0, s.highest+1, 1000)
			h.ok(err)
			below += job.Order(n)
		}
		if below != s.count {
			h.t.Fatalf("when order %d was visible %d entries up to it were, later %d are", s.highest, s.count, below)
		}
	}
}

func laneBreak(h *harness) {
	h.add()
	h.add()
	for range h.s.Waiting(h.ctx, job.Calls) {
		break
	}
	w := h.add()
	h.begin(w)
	h.retry(w, 1)
	for range h.s.Pending(h.ctx) {
		break
	}
}

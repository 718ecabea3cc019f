package storetest

import (
	"context"
	"iter"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// departure is what a disk remembers of a job that was handed over.
type departure struct {
	moves int
	at    time.Time
}

func (r *record) handed() store.Handed { return store.NewHanded(r.snapshot(), r.payload) }

// waits reports whether the record's work stands where it can be offered.
func (r *record) waits() bool {
	calls, _, _ := r.line(job.Calls)
	deliveries, _, _ := r.line(job.Deliveries)
	return r.open == nil && (calls != job.Lane{} || deliveries != job.Lane{})
}

func (m *memory) Unfinished(ctx context.Context) iter.Seq2[store.Handed, error] {
	return each(ctx, m, func(d *Disk) (list []store.Handed) {
		var ids []job.ID
		for _, line := range []job.Line{job.Calls, job.Deliveries} {
			for _, e := range d.entries(line) {
				ids = append(ids, e.ID)
			}
		}
		for _, x := range d.retries() {
			ids = append(ids, x.ID)
		}
		for _, id := range ids {
			if r := d.jobs[id]; r.waits() {
				list = append(list, r.handed())
			}
		}
		return list
	})
}

func (m *memory) Offers(ctx context.Context) iter.Seq2[store.Offered, error] {
	return each(ctx, m, func(d *Disk) (list []store.Offered) {
		for _, id := range d.ids() {
			if r := d.jobs[id]; r.peer != "" {
				list = append(list, store.Offered{Peer: r.peer, Handed: r.handed()})
			}
		}
		return list
	})
}

func (m *memory) Offer(ctx context.Context, peer string, work []store.Handed) (taken []store.Handed, err error) {
	err = m.change(ctx, "Offer", func(d *Disk) (func(), error) {
		seen := make(map[job.ID]bool)
		for _, h := range work {
			if r := d.live(h.Job.ID); r != nil && r.waits() && h.SamePlace(r.snapshot()) && !seen[h.Job.ID] {
				taken = append(taken, h)
				seen[h.Job.ID] = true
			}
		}
		return func() {
			for _, h := range taken {
				d.jobs[h.Job.ID].peer = peer
			}
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

func (m *memory) Keep(ctx context.Context, peer string, work []store.Handed) (stands []store.Handed, err error) {
	err = m.endOffers(ctx, "Keep", peer, work, func(_ *Disk, r *record) { r.peer = "" })
	if err != nil {
		return nil, err
	}
	seen := make(map[job.ID]bool)
	err = m.read(ctx, func(d *Disk) error {
		for _, h := range work {
			if r := d.live(h.Job.ID); r != nil && r.peer == "" && h.Stands(r.snapshot()) && !seen[h.Job.ID] {
				seen[h.Job.ID] = true
				stands = append(stands, h)
			}
		}
		return nil
	})
	return stands, err
}

func (m *memory) Forget(ctx context.Context, peer string, work []store.Handed) error {
	return m.endOffers(ctx, "Forget", peer, work, func(d *Disk, r *record) {
		d.remove(r.job.ID)
		d.left[r.job.ID] = departure{moves: r.job.Moves + 1, at: time.Now()}
	})
}

func (m *memory) endOffers(ctx context.Context, method, peer string, work []store.Handed, end func(*Disk, *record)) error {
	return m.change(ctx, method, func(d *Disk) (func(), error) {
		return func() {
			for _, h := range work {
				if r := d.jobs[h.Job.ID]; r != nil && r.peer == peer && peer != "" && h.Job.Moves == r.job.Moves+1 {
					end(d, r)
				}
			}
		}, nil
	})
}

func (m *memory) Judge(ctx context.Context, work []store.Handed) (list []store.Adoption, err error) {
	err = m.read(ctx, func(d *Disk) error {
		list = d.judge(work)
		return nil
	})
	return list, err
}

func (d *Disk) judge(work []store.Handed) []store.Adoption {
	list := make([]store.Adoption, len(work))
	ids, keys := make(map[job.ID]bool), make(map[job.KeyHash]bool)
	for i, h := range work {
		var here *job.Job
		offered := false
		if r := d.jobs[h.Job.ID]; r != nil {
			here, offered = r.job, r.peer != ""
		}
		v := store.Weigh(h.Job.Moves, here, offered, d.left[h.Job.ID].moves)
		hash, keyed := h.Job.Request.Key().Hash(), h.Job.RedriveOf.IsZero()
		holder := d.live(d.keys[hash])
		switch {
		case v != store.Adopted:
		case keyed && (keys[hash] && !ids[h.Job.ID] || holder != nil && holder.job.ID != h.Job.ID):
			v = store.Taken
		case ids[h.Job.ID]:
			v = store.Unsettled
		default:
			ids[h.Job.ID] = true
			keys[hash] = keys[hash] || keyed
		}
		list[i].Verdict = v
	}
	return list
}

func (m *memory) Adopt(ctx context.Context, work []store.Handed) (list []store.Adoption, err error) {
	err = m.change(ctx, "Adopt", func(d *Disk) (func(), error) {
		list = d.judge(work)
		return func() {
			for i, h := range work {
				if list[i].Verdict == store.Adopted {
					list[i].Entry = d.adopt(h)
				}
			}
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// adopt adds a job of another disk and returns its place.
func (d *Disk) adopt(h store.Handed) job.Entry {
	r := &record{
		job: h.Job, key: h.Job.Request.Key().Hash(), state: h.State, webhook: h.Webhook, payload: h.Payload,
	}
	place := h.Place()
	place.Order = 0
	if h.DueAt() == 0 {
		place.Order = d.next()
	}
	r.state.Order, r.webhook.Order = 0, 0
	if h.Line() == job.Calls {
		r.state.Order = place.Order
	} else {
		r.webhook.Order = place.Order
	}
	d.jobs[h.Job.ID] = r
	if h.Job.RedriveOf.IsZero() {
		d.keys[r.key] = h.Job.ID
	}
	return place
}

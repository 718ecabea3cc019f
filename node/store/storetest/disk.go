package storetest

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Disk is a store's content in memory. It outlives the stores that are opened on it, as a disk does.
// After every change it checks its own invariants and fails the test when one is broken.
type Disk struct {
	t testing.TB

	// mu guards all below: one change or read at a time.
	mu      sync.Mutex
	fault   Fault
	jobs    map[job.ID]*record
	keys    map[job.KeyHash]job.ID
	orders  map[string]store.Override // of operators
	order   job.Order                 // the last one given
	session int                       // counts the stores opened
	ledger  ledger
	left    map[job.ID]departure // of jobs that were handed over
}

// record is all about one job.
type record struct {
	job     *job.Job
	key     job.KeyHash
	state   job.State
	webhook job.Webhook
	payload []byte
	open    *openAttempt // nil if no attempt is open
	peer    string       // to whom the job is offered; empty if it is not
}

type openAttempt struct {
	number    int
	startedAt int64
	direct    bool
	session   int
}

// NewDisk returns an empty disk.
func NewDisk(t testing.TB) *Disk {
	return &Disk{
		t: t, jobs: make(map[job.ID]*record), keys: make(map[job.KeyHash]job.ID), orders: make(map[string]store.Override),
		left: make(map[job.ID]departure),
	}
}

// SetFault makes changes go wrong as f says; nil lets all go well again.
func (d *Disk) SetFault(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// Open returns a store with the content of the disk. Attempts that are open are then interrupted ones,
// so the store opened before must not be used any more.
func (d *Disk) Open() (store.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session++
	return &memory{disk: d, session: d.session}, nil
}

// tried is how many attempts have begun.
func (r *record) tried() int {
	if r.open != nil {
		return r.open.number
	}
	return r.state.Tried
}

// line says where a record's work waits: the place in a lane, or when it is due; both zero for nowhere.
func (r *record) line(line job.Line) (lane job.Lane, order job.Order, due int64) {
	ended := r.state.Phase().Ended()
	switch {
	case r.peer != "":
		return job.Lane{}, 0, 0
	case line == job.Calls && !ended:
		return r.job.Lane(), r.state.Order, r.state.DueAt
	case line == job.Deliveries && ended && r.webhook.Phase() == job.WebhookPending:
		return r.job.WebhookLane(), r.webhook.Order, r.webhook.DueAt
	default:
		return job.Lane{}, 0, 0
	}
}

// expired reports whether reads must not show the job any more.
func (r *record) expired(now time.Time) bool {
	return r.state.Phase().Ended() && r.webhook.State.Settled() && r.state.ExpiresAt <= now.UnixMilli()
}

// live returns the record of a job that has not expired, or nil.
func (d *Disk) live(id job.ID) *record {
	if r := d.jobs[id]; r != nil && !r.expired(time.Now()) {
		return r
	}
	return nil
}

// next gives the next order.
func (d *Disk) next() job.Order {
	d.order++
	return d.order
}

// entries returns what waits in a line, lane after lane.
func (d *Disk) entries(line job.Line) []job.Entry {
	var list []job.Entry
	for id, r := range d.jobs {
		if lane, order, _ := r.line(line); order != 0 {
			list = append(list, job.Entry{Lane: lane, Order: order, ID: id})
		}
	}
	slices.SortFunc(list, func(a, b job.Entry) int {
		return cmp.Or(cmp.Compare(a.Lane.Target, b.Lane.Target),
			slices.Compare(a.Lane.Tenant[:], b.Lane.Tenant[:]), cmp.Compare(a.Order, b.Order))
	})
	return list
}

// retries returns the calls and deliveries that are due at some time, in order.
func (d *Disk) retries() []store.Due {
	var list []store.Due
	for id, r := range d.jobs {
		for kind, line := range map[store.DueKind]job.Line{store.DueCall: job.Calls, store.DueDelivery: job.Deliveries} {
			if lane, _, due := r.line(line); due != 0 {
				list = append(list, store.Due{At: due, Kind: kind, ID: id, Lane: lane})
			}
		}
	}
	return sortDue(list)
}

func sortDue(list []store.Due) []store.Due {
	slices.SortFunc(list, func(a, b store.Due) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Kind, b.Kind), slices.Compare(a.ID[:], b.ID[:]))
	})
	return list
}

// check fails the test if an invariant is broken: each unfinished job and each owed delivery stands in
// exactly one place, no order is given twice, and a key belongs to a job that has it.
func (d *Disk) check(method string) {
	orders := make(map[job.Order]job.ID)
	for id, r := range d.jobs {
		for _, line := range []job.Line{job.Calls, job.Deliveries} {
			lane, order, due := r.line(line)
			if waits := lane != (job.Lane{}); waits && (order != 0) == (due != 0) {
				d.t.Errorf("%s: job %s stands at order %d and is due at %d in %v", method, id, order, due, line)
			}
			if other, taken := orders[order]; taken && order != 0 {
				d.t.Errorf("%s: jobs %s and %s have one order", method, id, other)
			}
			orders[order] = id
		}
		if r.open != nil && (r.state.Phase().Ended() || r.state.DueAt != 0) {
			d.t.Errorf("%s: job %s has an open attempt and is not in its lane", method, id)
		}
	}
	for hash, id := range d.keys {
		if r := d.jobs[id]; r == nil || r.key != hash {
			d.t.Errorf("%s: a key belongs to %s, which has it not", method, id)
		}
	}
}

// ids returns all jobs, newest first.
func (d *Disk) ids() []job.ID {
	ids := slices.Collect(maps.Keys(d.jobs))
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(b[:], a[:]) })
	return ids
}

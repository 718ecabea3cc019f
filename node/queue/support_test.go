package queue

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a Backlog in memory.
type disk struct {
	mu    sync.Mutex
	last  job.Order
	lanes map[job.Lane][]job.Entry
	// read, if set, is called with each reading after it has been made and before it is returned.
	read func(ctx context.Context, l job.Lane) error
}

func newDisk() *disk { return &disk{lanes: map[job.Lane][]job.Entry{}} }

// insert adds a job at the tail of a lane.
func (d *disk) insert(l job.Lane, id job.ID) job.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	e := job.Entry{Lane: l, Order: d.last, ID: id}
	d.lanes[l] = append(d.lanes[l], e)
	return e
}

func (d *disk) remove(e job.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lanes[e.Lane] = slices.DeleteFunc(d.lanes[e.Lane], func(x job.Entry) bool { return x == e })
}

func (d *disk) between(l job.Lane, after, before job.Order, limit int) []job.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []job.Entry
	for _, e := range d.lanes[l] {
		if e.Order > after && e.Order < before && len(found) < limit {
			found = append(found, e)
		}
	}
	return found
}

func (d *disk) Lane(ctx context.Context, _ job.Line, l job.Lane, after job.Order, limit int) ([]job.Entry, error) {
	found := d.between(l, after, ^job.Order(0), limit)
	if d.read != nil {
		if err := d.read(ctx, l); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *disk) Ahead(_ context.Context, _ job.Line, l job.Lane, after, before job.Order, limit int) (int, error) {
	return len(d.between(l, after, before, limit)), nil
}

// runner is a Runner made of a function.
type runner func(t *Turn) Verdict

func (r runner) Run(_ context.Context, t *Turn) Verdict { return r(t) }

func id(n int) job.ID {
	var id job.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func laneOf(target string, tenant int) job.Lane {
	var t job.Tenant
	binary.BigEndian.PutUint64(t[:], uint64(tenant))
	return job.Lane{Target: "http://" + target, Tenant: t}
}

func settings(rps float64, concurrent int) func(string) pace.Settings {
	return func(string) pace.Settings { return pace.Settings{RPS: rps, MaxConcurrent: concurrent} }
}

// rig is a queue with a disk, and a count of the ids that are in use.
type rig struct {
	*Queue
	disk *disk
	ids  int
}

func newRig(cfg Config) *rig {
	d := newDisk()
	cfg.Line, cfg.Backlog = job.Calls, d
	return &rig{Queue: New(cfg), disk: d}
}

// add stores and pushes new jobs of one lane.
func (r *rig) add(l job.Lane, n int) {
	for range n {
		r.ids++
		p := r.Reserve(l, id(r.ids))
		p.Push(r.disk.insert(l, id(r.ids)), nil)
	}
}

// start runs the queue and returns how to stop it.
func (r *rig) start(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// empty checks that nothing is left.
func (r *rig) empty(t testing.TB) {
	t.Helper()
	if s := r.Stats(); s != (Stats{}) {
		t.Errorf("left: %+v", s)
	}
	if n := r.held.Load(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
	if n := r.counts.active.Load(); n != 0 {
		t.Errorf("%d are still active", n)
	}
	for _, target := range r.targets {
		if !target.resting() || len(target.lanes) != 0 || target.pace.Len() != 0 || target.pace.Budget().InFlight() != 0 {
			t.Errorf("target %s does not rest: %d lanes, %d open", target.name, len(target.lanes), target.pace.Budget().InFlight())
		}
	}
}

// idle waits until there is nothing to do.
func (r *rig) idle(t testing.TB) {
	t.Helper()
	if err := r.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// starts collects when turns started.
type starts struct {
	mu    sync.Mutex
	turns []started
}

type started struct {
	job.Entry
	at time.Time
}

func (s *starts) note(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, started{t.Entry, time.Now()})
}

func (s *starts) all() []started {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.turns)
}

// most is the largest number of starts in any window of this length.
func most(all []started, window time.Duration) int {
	var most, first int
	for i := range all {
		for all[i].at.Sub(all[first].at) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// peak counts what is open, and keeps the most that was.
type peak struct {
	mu        sync.Mutex
	now, most int
}

// add counts n more, until the function that it returns is called.
func (p *peak) add(n int) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += n
	p.most = max(p.most, p.now)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now -= n
	}
}

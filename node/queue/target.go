package queue

import (
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// target is one target: its budget, its lanes, and whose turn it is.
type target struct {
	q    *Queue
	name string // scheme://host[:port]
	host string

	// mu guards what follows, and its lanes and places: a job is dispatched by exactly one holder, and
	// what an exact budget allows is decided and counted in one step.
	mu      sync.Mutex
	budget  *pace.Budget
	share   pace.Share[*lane]
	lanes   map[job.Tenant]*lane
	present map[job.ID]*Place
	grown   bool // the maps have been large, and maps never shrink
	backlog int  // unfinished work
	active  int  // lanes with unfinished work

	timer *time.Timer // nil until it is needed
	armed bool        // the timer will fire at due
	due   time.Time

	hungry  []*lane // to be read from the store
	reading bool    // a reader is running

	used    time.Time // when it last had work, if it has none
	dropped bool      // it is not in Queue.targets any more
}

// lane returns the lane of a tenant.
func (t *target) lane(tenant job.Tenant) *lane {
	l := t.lanes[tenant]
	if l == nil {
		l = &lane{target: t, tenant: tenant}
		l.flow.Lane = l
		t.lanes[tenant] = l
	}
	return l
}

// count adds to the unfinished work of a lane.
func (t *target) count(l *lane, n int32) {
	c := &t.q.counts
	lanes, targets := t.active, t.backlog
	if l.backlog == 0 {
		t.active++
	}
	l.backlog += n
	if l.backlog == 0 {
		t.active--
	}
	t.backlog += int(n)
	c.backlog.Add(int64(n))
	if d := t.active - lanes; d != 0 {
		c.lanes.Add(int64(d))
	}
	switch {
	case targets == 0 && t.backlog > 0:
		c.targets.Add(1)
	case targets > 0 && t.backlog == 0:
		c.targets.Add(-1)
	}
}

// occupy makes a place present.
func (t *target) occupy(p *Place) {
	t.present[p.id] = p
	p.lane.places++
	t.grown = t.grown || len(t.present) > 64
}

// ready tells the share that a lane has work in its window.
func (t *target) ready(l *lane) {
	l.sharing = true
	t.share.Add(&l.flow)
}

// tidy drops a lane that matters no more, and all of them when the target has nothing to do.
func (t *target) tidy(l *lane) {
	if t.resting() {
		t.rest()
		return
	}
	if l.backlog == 0 && l.places == 0 && !l.hungry && !l.sharing {
		delete(t.lanes, l.tenant)
	}
}

// resting reports whether the target has nothing to do.
func (t *target) resting() bool {
	return t.backlog == 0 && len(t.present) == 0 && !t.reading && len(t.hungry) == 0
}

// rest puts a target without work into its smallest form. Its budget stays, so that its pace holds.
func (t *target) rest() {
	if t.grown {
		t.lanes, t.present, t.grown = map[job.Tenant]*lane{}, map[job.ID]*Place{}, false
	}
	clear(t.lanes)
	t.disarm()
	t.share = pace.Share[*lane]{}
	t.used = time.Now()
}

// pump starts the turns that may start now, and arms the timer if the next may start later.
func (t *target) pump(now time.Time) {
	r := t.q.run.Load()
	if r == nil {
		return
	}
	for f := t.share.Next(); f != nil; f = t.share.Next() {
		if len(f.Lane.window) == 0 { // withdrawn, or not read yet
			t.share.Serve(0, 1, false)
			t.forget()
			continue
		}
		wait, ok := t.budget.Wait(now)
		if !ok {
			return
		}
		if wait > 0 {
			t.arm(now, wait)
			return
		}
		t.dispatch(r, f.Lane, now)
	}
}

// dispatch gives a lane its turn.
func (t *target) dispatch(r *run, l *lane, now time.Time) {
	p := l.window[0]
	l.remove(p)
	p.state = open
	t.share.Serve(1, 1, len(l.window) > 0)
	t.budget.Take(now)
	t.q.counts.open()
	t.q.counts.metrics.wait.Observe(p.waited(now).Seconds())
	turn := &Turn{Entry: l.entry(p), Held: p.release(), place: p, load: t.load(l)}
	t.q.working.Add(1)
	t.q.hands.give(errand{t, r, turn})
	t.feed(l)
	t.forget()
}

// waited is how long a place has waited for its turn.
func (p *Place) waited(now time.Time) time.Duration {
	if p.since == 0 {
		return now.Sub(p.id.Time())
	}
	return now.Sub(p.lane.target.q.epoch) - p.since
}

// forget drops lanes whose past does not matter any more.
func (t *target) forget() {
	for range 2 {
		f := t.share.Forget()
		if f == nil {
			return
		}
		f.Lane.sharing = false
		t.tidy(f.Lane)
	}
}

// load is the load as a lane sees it; nil for one that has no work.
func (t *target) load(l *lane) Load {
	c := &t.q.counts
	load := Load{
		Total: c.backlog.Load(), Waiting: c.waiting.Load(), Rate: t.budget.Rate(),
		ActiveLanes: t.active, TargetBacklog: t.backlog,
	}
	if l != nil {
		load.LaneBacklog = int(l.backlog)
	}
	return load
}

// configure applies other settings.
func (t *target) configure(s pace.Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.budget.Configure(s)
	t.pump(time.Now())
}

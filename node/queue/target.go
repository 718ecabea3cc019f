package queue

import (
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// target is one target: its pace, its lanes, and whose turn it is.
type target struct {
	q    *Queue
	name string // scheme://host[:port]
	host string

	// mu guards what follows, and its lanes and places: a job is dispatched by exactly one holder, and
	// what an exact budget allows is decided and counted in one step.
	mu       sync.Mutex
	pace     *pace.Target[*lane]
	settings pace.Settings // of pace
	paused   bool          // nothing is started
	lanes    map[job.Tenant]*lane
	present  map[job.ID]*Place
	grown    bool // the maps have been large, and maps never shrink
	backlog  int  // unfinished work
	direct   int  // of it, what goes past the queue
	active   int  // lanes with unfinished work

	timer *time.Timer // nil until it is needed
	armed bool        // the timer will fire at due
	due   time.Time

	refills []*lane // lanes to be read from the store
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
	t.q.tenants.add(l.tenant, int(n))
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

// ready tells the pace that a lane has work in its window.
func (t *target) ready(l *lane) { t.pace.Add(&l.flow) }

// tidy drops a lane that matters no more, and all of them when the target has nothing to do.
func (t *target) tidy(l *lane) {
	if t.resting() {
		t.rest()
		return
	}
	if l.backlog == 0 && l.places == 0 && !l.refilling && !t.pace.Holds(&l.flow) {
		delete(t.lanes, l.tenant)
	}
}

// resting reports whether the target has nothing to do, and nothing to remember of single lanes.
func (t *target) resting() bool {
	return t.backlog == 0 && len(t.present) == 0 && !t.reading && len(t.refills) == 0 && t.pace.Resting()
}

// rest puts a target without work into its smallest form. Its pace stays, with what the target has said.
func (t *target) rest() {
	if t.grown {
		t.lanes, t.present, t.grown = map[job.Tenant]*lane{}, map[job.ID]*Place{}, false
	}
	clear(t.lanes)
	t.disarm()
	t.used = time.Now()
}

// pump starts the turns that may start now, and arms the timer if there may be something to do later.
func (t *target) pump(now time.Time) {
	r := t.q.run.Load()
	if r == nil || t.paused {
		return
	}
	for {
		f, wait := t.pace.Next(now)
		t.forget(now)
		switch {
		case f == nil:
			if wait.For > 0 {
				t.arm(now, wait.For)
			}
			return
		case len(f.Lane.window) == 0: // withdrawn, or not read yet
			t.pace.Skip(now)
		default:
			t.dispatch(r, f.Lane, now)
		}
	}
}

// dispatch gives a lane its turn.
func (t *target) dispatch(r *run, l *lane, now time.Time) {
	p := l.window[0]
	l.remove(p)
	p.state = open
	slot := t.pace.Start(1, len(l.window) > 0, now)
	t.q.counts.open()
	t.q.counts.metrics.wait.Observe(p.waited(now).Seconds())
	turn := &Turn{Entry: l.entry(p), Held: p.release(), place: p, slot: slot, load: t.load(l)}
	t.q.working.Add(1)
	t.q.workers.start(task{t, r, turn})
	t.feed(l)
}

// waited is how long a place has waited for its turn.
func (p *Place) waited(now time.Time) time.Duration {
	if p.since == 0 {
		return now.Sub(p.id.Time())
	}
	return now.Sub(p.lane.target.q.epoch) - p.since
}

// forget drops lanes whose past does not matter any more: two each time, so that it keeps up, and all when
// nothing waits.
func (t *target) forget(now time.Time) {
	for n := 0; n < 2 || t.pace.Len() == 0; n++ {
		f := t.pace.Forget(now)
		if f == nil {
			return
		}
		t.tidy(f.Lane)
	}
}

// load is the load as a lane sees it; nil for one that has no work.
func (t *target) load(l *lane) Load {
	c := &t.q.counts
	load := Load{
		Total: c.backlog.Load(), Waiting: c.waiting.Load(), Rate: t.pace.Budget().Rate(),
		ActiveLanes: t.active, TargetBacklog: t.backlog,
	}
	load.MaxBacklog, load.MaxBacklogUntil = t.pace.Budget().MaxBacklog(time.Now())
	if l != nil {
		load.LaneBacklog = int(l.backlog)
	}
	return load
}

// configure asks for the settings again. That is done under the lock, so that of two changes the later one holds.
func (t *target) configure(renew bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, paused := t.q.cfg.Settings(t.host), t.q.paused(t.host)
	t.pace.Configure(s)
	if renew || s.Whole() != t.settings.Whole() {
		t.pace.ClearSlowDowns()
	}
	t.settings, t.paused = s, paused
	if paused {
		t.disarm()
	}
	t.pump(time.Now())
}

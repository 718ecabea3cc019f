package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

const (
	// maxIdleTargets is about how many targets without work are remembered, with their pace.
	maxIdleTargets = 16_384
	// minIdle is how long a target without work is remembered, unless there are too many of them.
	minIdle = time.Hour
)

// find returns a target, nil if it is not known.
func (q *Queue) find(name string) *target {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.targets[name]
}

// lock returns a target with its lock taken.
func (q *Queue) lock(name string) *target {
	for {
		t := q.find(name)
		if t == nil {
			t = q.meet(name)
		}
		t.mu.Lock()
		if !t.dropped {
			return t
		}
		t.mu.Unlock()
	}
}

// meet adds a target.
func (q *Queue) meet(name string) *target {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.targets[name]; t != nil {
		return t
	}
	if len(q.targets) >= q.pruneAt {
		q.forget(time.Now())
		q.pruneAt = max(maxIdleTargets, 2*len(q.targets))
	}
	host := job.Lane{Target: name}.Host()
	settings, paused := q.cfg.Settings(host), q.paused(host) // under the lock: whoever changes them finds the target, or is heard here
	t := &target{
		q: q, name: name, host: host, used: time.Now(),
		pace: pace.NewTarget[*lane](settings), settings: settings, paused: paused,
		lanes: map[job.Tenant]*lane{}, present: map[job.ID]*Place{},
	}
	q.targets[name] = t
	return t
}

// forget drops targets without work: those that have had none for long, and of the others the longest
// idle ones, down to half of what is remembered.
func (q *Queue) forget(now time.Time) {
	type idle struct {
		t    *target
		used time.Time
	}
	var all []idle
	for _, t := range q.targets {
		if used, ok := t.idle(); ok {
			all = append(all, idle{t, used})
		}
	}
	slices.SortFunc(all, func(a, b idle) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
	for i, one := range all {
		if len(all)-i <= maxIdleTargets/2 && now.Sub(one.used) < minIdle {
			return
		}
		if one.t.drop() {
			delete(q.targets, one.t.name)
		}
	}
}

// idle reports since when a target has had no work. One that is just locked has some.
func (t *target) idle() (since time.Time, ok bool) {
	if !t.mu.TryLock() {
		return time.Time{}, false
	}
	defer t.mu.Unlock()
	return t.used, t.resting()
}

// drop makes sure that nobody uses a target any more, unless it has work.
func (t *target) drop() bool {
	if !t.mu.TryLock() {
		return false
	}
	defer t.mu.Unlock()
	t.dropped = t.resting()
	return t.dropped
}

package queue

import "time"

// start takes up what has waited for Run.
func (t *target) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read()
	t.pump(time.Now())
}

// stop sees to it that the target starts nothing more.
func (t *target) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disarm()
}

// disarm stops the timer.
func (t *target) disarm() {
	t.armed = false
	if t.timer != nil && t.timer.Stop() {
		t.q.working.Done()
	}
}

// arm has the timer fire after a wait, or earlier if it would anyway.
func (t *target) arm(now time.Time, wait time.Duration) {
	due := now.Add(wait)
	if t.armed && !due.Before(t.due) {
		return
	}
	t.armed, t.due = true, due
	if t.timer != nil && t.timer.Reset(wait) {
		return // it was to fire later, and has been counted
	}
	t.q.working.Add(1)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
	}
}

// fire is called by the timer.
func (t *target) fire() {
	defer t.q.working.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	t.pump(time.Now())
}

package queue

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// maxReadBackoff is the longest wait before a failed reading is repeated.
const maxReadBackoff = 30 * time.Second

// feed has a lane read if there may be more on disk and its window is half empty.
func (t *target) feed(l *lane) {
	if !l.more || l.hungry || len(l.window) > t.q.cfg.Window/2 {
		return
	}
	l.hungry = true
	t.hungry = append(t.hungry, l)
	t.read()
}

// read starts a reader if there is something to read and nobody does.
func (t *target) read() {
	r := t.q.run.Load()
	if r == nil || t.reading || len(t.hungry) == 0 {
		return
	}
	t.reading = true
	t.q.working.Add(1)
	go t.readAll(r)
}

// readAll reads lanes until none is hungry or turns no longer start.
func (t *target) readAll(r *run) {
	defer t.q.working.Done()
	failures := 0
	for {
		l, after, limit := t.nextHungry(r)
		if l == nil {
			return
		}
		entries, err := t.q.cfg.Backlog.Lane(r.reads, t.q.cfg.Line, l.name(), after, limit)
		if err == nil {
			failures = 0
			t.refill(l, entries, limit)
			continue
		}
		t.postpone(l)
		if r.reads.Err() != nil {
			continue // nextHungry ends it
		}
		wait := pace.Backoff(failures, maxReadBackoff, 0)
		failures++
		t.q.counts.metrics.failedReads.Inc()
		t.q.cfg.Logger.Error("lane not read", "line", t.q.cfg.Line.String(), "target", t.name,
			"error", err, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.reads.Done():
			timer.Stop()
		}
	}
}

// nextHungry begins the reading of the next lane, and returns nil when the reader is to end.
func (t *target) nextHungry(r *run) (l *lane, after job.Order, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hungry) == 0 || r.reads.Err() != nil {
		t.reading = false
		if t.resting() {
			t.rest()
		}
		return nil, 0, 0
	}
	l = t.hungry[0]
	if t.hungry = t.hungry[1:]; len(t.hungry) == 0 {
		t.hungry = nil
	}
	l.dirty = false
	l.lost = map[job.ID]job.Order{}
	return l, l.high, max(t.q.cfg.Window-len(l.window), 1)
}

// postpone ends a reading that failed; the lane stays hungry.
func (t *target) postpone(l *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.lost = nil
	t.hungry = append(t.hungry, l)
}

// refill takes up what was read.
func (t *target) refill(l *lane, entries []job.Entry, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		if e.Order > l.high && l.takes(e) {
			t.admit(l, e)
		}
		l.high = max(l.high, e.Order)
	}
	if len(entries) < limit && !l.dirty {
		l.more = false
	}
	l.lost, l.hungry = nil, false
	t.feed(l)
	t.pump(time.Now())
	t.tidy(l)
}

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
	if !l.more || l.refilling || len(l.window) > t.q.cfg.Window/2 {
		return
	}
	l.refilling = true
	t.refills = append(t.refills, l)
	t.read()
}

// read starts a reader if there is something to read and nobody does.
func (t *target) read() {
	r := t.q.run.Load()
	if r == nil || t.reading || len(t.refills) == 0 {
		return
	}
	t.reading = true
	t.q.working.Add(1)
	go t.readAll(r)
}

// readAll reads lanes until none is left to be refilled or turns no longer start.
func (t *target) readAll(r *run) {
	defer t.q.working.Done()
	failures := 0
	for {
		l, after, limit := t.nextRefill(r)
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
			continue // nextRefill ends it
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

// nextRefill begins the reading of the next lane, and returns nil when the reader is to end.
func (t *target) nextRefill(r *run) (l *lane, after job.Order, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.refills) == 0 || r.reads.Err() != nil {
		t.reading = false
		if t.resting() {
			t.rest()
		}
		return nil, 0, 0
	}
	l = t.refills[0]
	if t.refills = t.refills[1:]; len(t.refills) == 0 {
		t.refills = nil
	}
	l.dirty = false
	l.lost = map[job.ID]job.Order{}
	return l, l.high, max(t.q.cfg.Window-len(l.window), 1)
}

// postpone ends a reading that failed; the lane is still to be refilled.
func (t *target) postpone(l *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.lost = nil
	t.refills = append(t.refills, l)
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
	l.lost, l.refilling = nil, false
	t.feed(l)
	t.pump(time.Now())
	t.tidy(l)
}

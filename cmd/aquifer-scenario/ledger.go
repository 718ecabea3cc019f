package main

import (
	"sync"
	"time"
)

// call is one attempt that reached the target.
type call struct {
	At       time.Time
	Node     place // that made it
	Job      string
	Attempt  string
	Executed bool // the target did the work, and said so with 200
}

// hook is one webhook that reached the receiver.
type hook struct {
	At       time.Time
	Node     place
	Delivery string
	Job      string
	Status   string // of the job
}

// entry is what is known of one job, which is what one client wants done once.
type entry struct {
	Key   string
	User  string
	Sent  time.Time // when it was due to be sent
	Acked time.Time // zero: never
	Job   string    // id of the acknowledgement
	Owner place     // node that gave it
	Calls []call
	Hooks []hook
}

// ledger is the account of a run. All methods may be called at any time.
type ledger struct {
	// mu guards all below.
	mu      sync.Mutex
	entries map[string]*entry
	order   []*entry
	failed  map[string]int // calls of clients that were not answered with 2xx, by what came instead
	strays  int            // calls and webhooks of keys that nobody has sent
	late    time.Duration  // longest time by which a job was sent after it was due
}

func newLedger() *ledger {
	return &ledger{entries: make(map[string]*entry), failed: make(map[string]int)}
}

// send records that a job is sent, which was due a little earlier.
func (l *ledger) send(key, user string, due, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{Key: key, User: user, Sent: due}
	l.late = max(l.late, now.Sub(due))
	l.entries[key] = e
	l.order = append(l.order, e)
}

func (l *ledger) ack(key, job string, owner place, at time.Time) {
	l.on(key, func(e *entry) {
		if e.Acked.IsZero() {
			e.Acked, e.Job, e.Owner = at, job, owner
		}
	})
}

// fail counts a call of a client that was not answered with 2xx.
func (l *ledger) fail(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[why]++
}

func (l *ledger) called(key string, c call) {
	l.on(key, func(e *entry) { e.Calls = append(e.Calls, c) })
}

func (l *ledger) delivered(key string, h hook) {
	l.on(key, func(e *entry) { e.Hooks = append(e.Hooks, h) })
}

func (l *ledger) on(key string, do func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		do(e)
		return
	}
	l.strays++
}

// ended reports whether the receiver has been told of the job.
func (e *entry) ended() bool { return len(e.Hooks) > 0 }

// completed reports whether it was told that the job is done.
func (e *entry) completed() bool {
	for _, h := range e.Hooks {
		if h.Status == "completed" {
			return true
		}
	}
	return false
}

// executions are the calls that did the work.
func (e *entry) executions() []call {
	var list []call
	for _, c := range e.Calls {
		if c.Executed {
			list = append(list, c)
		}
	}
	return list
}

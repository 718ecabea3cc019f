package queue

import (
	"maps"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// tenants counts the unfinished work of each tenant at all targets. A nil one counts nothing.
type tenants struct {
	mu      sync.Mutex // guards backlog; taken after a target's lock
	backlog map[job.Tenant]int
}

func (t *tenants) add(who job.Tenant, n int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.backlog[who] += n; t.backlog[who] == 0 {
		delete(t.backlog, who)
	}
}

func (t *tenants) copy() map[job.Tenant]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.backlog)
}

// Tenants is how many tenants have unfinished work.
func (q *Queue) Tenants() int {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.backlog)
}

// Tenant returns how much unfinished work a tenant has at all targets, and whether another one has any. It
// is for queues with CountTenants, as Tenants is.
func (q *Queue) Tenant(who job.Tenant) (backlog int, others bool) {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	backlog, own := t.backlog[who]
	n := len(t.backlog)
	if own {
		n--
	}
	return backlog, n > 0
}

package queue

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// tenants counts the unfinished work of each tenant at all targets. A nil one counts nothing.
//
// A tenant is one user with one API key, and only a job tells which user: as all jobs of a tenant tell the same, it is
// enough to read one of them. So what is on disk costs nothing here, and a restart reads one job of each tenant.
//
// mu guards all below it; taken after a target's lock.
type tenants struct {
	mu      sync.Mutex
	backlog map[job.Tenant]int
	unnamed map[job.Tenant]job.ID // a stored job of each tenant with backlog whose user is not known; zero: none yet
	names   map[job.Tenant]string // the users of all others
	users   map[string]int        // how many tenants with backlog a user is, as far as known
}

func newTenants() *tenants {
	return &tenants{
		backlog: map[job.Tenant]int{}, unnamed: map[job.Tenant]job.ID{}, names: map[job.Tenant]string{}, users: map[string]int{},
	}
}

// add counts n more.
func (t *tenants) add(who job.Tenant, n int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.backlog[who] += n; t.backlog[who] == 0 {
		delete(t.backlog, who)
		delete(t.unnamed, who)
		t.unname(who)
		return
	}
	if _, named := t.names[who]; named {
		return
	}
	if _, unnamed := t.unnamed[who]; !unnamed {
		t.unnamed[who] = job.ID{}
	}
}

// note takes down a job of a tenant with backlog that is in the store, and whose it is if the job is at hand. One that is
// not stored yet would tell nobody anything, if it never is.
func (t *tenants) note(who job.Tenant, id job.ID, held *job.Snapshot) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch _, unnamed := t.unnamed[who]; {
	case !unnamed:
	case held != nil && who != (job.Tenant{}):
		t.name(who, held.Job.Request.UserID)
	default:
		t.unnamed[who] = id
	}
}

// name notes whose an unnamed tenant is; t.mu is held. The user may be a part of a whole request, which is not kept.
func (t *tenants) name(who job.Tenant, user string) {
	user = strings.Clone(user)
	delete(t.unnamed, who)
	t.names[who] = user
	t.users[user]++
}

// unname forgets whose tenant one without work is; t.mu is held.
func (t *tenants) unname(who job.Tenant) {
	user, named := t.names[who]
	if !named {
		return
	}
	delete(t.names, who)
	if t.users[user]--; t.users[user] == 0 {
		delete(t.users, user)
	}
}

func (t *tenants) copy() map[job.Tenant]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.backlog)
}

// Unnamed returns up to limit tenants with unfinished work whose user the queue has not been told, each with one of
// its jobs that was stored, the zero ID if none was yet. Like the other methods about tenants it is for queues with
// CountTenants. The zero Tenant is not among them, as it is many users.
func (q *Queue) Unnamed(limit int) map[job.Tenant]job.ID {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	some := make(map[job.Tenant]job.ID, min(limit, len(t.unnamed)))
	for who, id := range t.unnamed {
		if len(some) == limit {
			break
		}
		if who != (job.Tenant{}) {
			some[who] = id
		}
	}
	return some
}

// Name tells the queue which user a tenant is, for as long as that has unfinished work.
func (q *Queue) Name(who job.Tenant, user string) {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, unnamed := t.unnamed[who]; !unnamed {
		return
	}
	t.name(who, user)
}

// Works reports whether a user has unfinished work, of tenants that are named. As long as any tenants share a lane, each
// user may have some there.
func (q *Queue) Works(user string) bool {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users[user] > 0 || t.backlog[job.Tenant{}] > 0
}

// Names returns the users that have unfinished work, of tenants that are named.
func (q *Queue) Names() []string {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.users))
}

// Users is how many users have unfinished work. Tenants that are not named count as one user each, and so do those that
// share lanes, together.
func (q *Queue) Users() int {
	t := q.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.users) + len(t.unnamed)
}

// Tenant returns how much unfinished work a tenant has at all targets, and whether another one has any.
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

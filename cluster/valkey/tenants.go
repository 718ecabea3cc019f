package valkey

import (
	"iter"
	"slices"
	"sync"
	"time"
)

// longestKept is the length of the longest routing key that is kept as it is, in bytes.
const longestKept = 128

// tenants are the owners that a node knows of tenants that are active here. Its own ones it is sure of until they are
// idle, and of others' for a heartbeat after Valkey named them; that one it knows for as long, for the case that Valkey
// cannot be asked.
//
// mu guards everything below it.
type tenants struct {
	self            string
	heartbeat, idle time.Duration
	ttl             time.Duration // of an assignment
	busy            func(key string) bool

	mu    sync.Mutex
	byKey map[string]*tenant
	owned int  // of them, those of this node
	again bool // assignments that nobody has any more are to be taken back
}

type tenant struct {
	hash  string
	owner string
	seen  time.Time // last request
	until time.Time // how long the owner is known without asking
}

func newTenants(c Config) *tenants {
	return &tenants{
		self: c.Self.ID, heartbeat: c.Heartbeat, idle: c.Idle, ttl: c.assignmentTTL(), busy: c.Busy,
		byKey: make(map[string]*tenant),
	}
}

// kept is the form in which a routing key is kept. That of a long key is none that a user could have.
func kept(key string) string {
	if len(key) <= longestKept {
		return key
	}
	return "\x00" + hashOf(key)
}

// owner returns the id of a tenant's owner, empty if it is not known at all, and whether it need not be
// asked for.
func (t *tenants) owner(key string, now time.Time) (id string, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byKey[kept(key)]
	if known == nil {
		return "", false
	}
	known.seen = now
	return known.owner, now.Before(known.until)
}

// place notes whom Valkey named.
func (t *tenants) place(key, hash, owner string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(kept(key))
	until := now.Add(t.heartbeat)
	if owner == t.self {
		until = now.Add(t.ttl)
		t.owned++
	}
	t.byKey[kept(key)] = &tenant{hash: hash, owner: owner, seen: now, until: until}
}

// forget drops what is known of a tenant if that is its owner.
func (t *tenants) forget(key, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byKey[kept(key)]; known != nil && known.owner == owner {
		t.drop(kept(key))
	}
}

// drop removes one; t.mu is held.
func (t *tenants) drop(keptKey string) {
	if known := t.byKey[keptKey]; known != nil {
		delete(t.byKey, keptKey)
		if known.owner == t.self {
			t.owned--
		}
	}
}

// own is how many active tenants the node owns.
func (t *tenants) own() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owned
}

// takeBack has the next renewal take back assignments that were lost.
func (t *tenants) takeBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again = true
}

// wanted reports whether assignments are to be taken back.
func (t *tenants) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.again
}

// askAgain has every owner be asked for before it is relied on.
func (t *tenants) askAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byKey {
		known.until = time.Time{}
	}
}

// doubt has the owner of one tenant be asked for before it is relied on.
func (t *tenants) doubt(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byKey[kept(key)]; known != nil {
		known.until = time.Time{}
	}
}

// mine is a tenant of the node's own.
type mine struct{ kept, hash string }

// due returns the node's own tenants, those that had requests lately and those that had none, and whether lost
// assignments are to be taken back. It drops others' tenants that nobody asks for.
func (t *tenants) due(now time.Time) (active, quiet []mine, takeBack bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, known := range t.byKey {
		switch {
		case known.owner != t.self:
			if now.Sub(known.seen) > t.idle {
				t.drop(key)
			}
		case now.Sub(known.seen) > t.idle:
			quiet = append(quiet, mine{key, known.hash})
		default:
			active = append(active, mine{key, known.hash})
		}
	}
	takeBack, t.again = t.again, false
	return active, quiet, takeBack
}

// works reports whether the node has unfinished work of a tenant.
func (t *tenants) works(m mine) bool {
	return t.busy != nil && m.kept[:min(1, len(m.kept))] != "\x00" && t.busy(m.kept)
}

// strays returns those of some routing keys that are not known to be the node's own.
func (t *tenants) strays(keys iter.Seq[string]) []string {
	all := slices.Collect(keys) // which may take a while
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(all, func(key string) bool {
		known := t.byKey[kept(key)]
		return known != nil && known.owner == t.self
	})
}

// renewed notes which of the tenants are still the node's own, as of now.
func (t *tenants) renewed(list []mine, kept []int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, m := range list {
		known := t.byKey[m.kept]
		switch {
		case known == nil || known.owner != t.self:
		case kept[i] == 1:
			known.until = now.Add(t.ttl)
		default:
			t.drop(m.kept)
		}
	}
}

// end drops those of the tenants that are idle still, and returns their names.
func (t *tenants) end(list []mine, now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var hashes []string
	for _, m := range list {
		if known := t.byKey[m.kept]; known != nil && known.owner == t.self && now.Sub(known.seen) > t.idle {
			t.drop(m.kept)
			hashes = append(hashes, m.hash)
		}
	}
	return hashes
}

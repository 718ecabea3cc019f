package handoff

import (
	"slices"
	"sync"
)

// absentees are the ids of peers that were found to take no work. They are known to one Drain alone: what a peer says
// of work that is handed over is no reason to send it no requests. The zero value is ready; it is safe for concurrent use.
type absentees struct {
	mu  sync.Mutex // guards ids
	ids []string
}

func (a *absentees) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.ids, id) {
		a.ids = append(a.ids, id)
	}
}

// list returns the ids in the order in which they were added.
func (a *absentees) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.ids)
}

// clear forgets all.
func (a *absentees) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = nil
}

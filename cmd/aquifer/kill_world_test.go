//go:build crashpoints

package main

import (
	"maps"
	"net/http"
	"slices"
)

// fastTargets is a pace that holds nobody up.
const fastTargets = `
defaults: {rps: 100000, max_concurrent: 4}
webhooks: {rps: 100000, max_concurrent: 4}
`

// of returns what has come about a job.
func (w *world) of(id string) (calls, deliveries []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls[id]), slices.Clone(w.deliveries[id])
}

// ids returns the jobs about which anything has come.
func (w *world) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.calls)
	maps.Copy(all, w.deliveries)
	return slices.Collect(maps.Keys(all))
}

// onMeeting has meet be told about each request from now on.
func (w *world) onMeeting(meet func(r *http.Request, delivery bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meet = meet
}

// forget drops what has come about a job.
func (w *world) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, id)
	delete(w.deliveries, id)
}

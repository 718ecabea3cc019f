package cluster_test

import (
	"net/http"
	"time"
)

// facing is what is met at the host: its node, later if that hangs, or who answers in its place.
func (h *host) facing(node http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		front, until := h.front, h.until
		h.mu.Unlock()
		if wait := time.Until(until); wait > 0 {
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return
			}
		}
		if front == nil {
			front = node
		}
		front.ServeHTTP(w, r)
	})
}

// hold has the host hang for so long.
func (h *host) hold(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Now().Add(d)
}

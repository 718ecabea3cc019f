package cluster

import (
	"errors"
	"sync"
)

// errFull tells that too much waits for the answers of other nodes.
var errFull = errors.New("too much waits for other nodes")

// waiting counts the requests that wait for an answer.
//
// mu guards both counts: requests by member, and the bytes of their bodies, which are held meanwhile.
type waiting struct {
	mu       sync.Mutex
	requests map[string]int
	bytes    int64
}

// enter makes room for a request to a member; done gives it back. The error is errFull. One request may
// always wait, however large.
func (w *waiting) enter(id string, size int64, maxRequests int, maxBytes int64) (done func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests[id] >= maxRequests || w.bytes > 0 && w.bytes+size > maxBytes {
		return nil, errFull
	}
	w.requests[id]++
	w.bytes += size
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bytes -= size
		if w.requests[id]--; w.requests[id] == 0 {
			delete(w.requests, id)
		}
	}, nil
}

// count returns how many requests wait.
func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, of := range w.requests {
		n += of
	}
	return n
}

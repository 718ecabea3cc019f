package queue

import (
	"slices"
	"sync"
	"time"
)

// workers are the pool of goroutines that run turns. One that is done waits a moment for another turn:
// its stack has grown to what a turn needs, and growing a new one costs more than all else that starts a
// turn. The one that has waited for the shortest time is taken first, so that those that are not needed
// are always the same ones. They are ended from time to time, because a timer for each wait would cost more
// than the wait.
//
// mu guards what stands below it.
type workers struct {
	mu     sync.Mutex
	idle   []chan task // of those that wait, in the order in which they began; none of them blocks who sends
	unused int         // of idle, so many from the first were not needed since the last look
	look   *time.Timer // nil: none is idle
	closed bool
}

// task is a turn to run.
type task struct {
	target *target
	run    *run
	turn   *Turn
}

// workerIdle is how long a worker waits for another turn at least, and half of the longest that it waits.
const workerIdle = time.Second

// start has a turn run, by a worker that is idle or by a new one. It does not block.
func (w *workers) start(t task) {
	if tasks := w.take(); tasks != nil {
		tasks <- t
		return
	}
	t.target.q.working.Add(1)
	go w.serve(t)
}

// take returns where an idle worker waits; nil if there is none.
func (w *workers) take() chan task {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.idle) == 0 {
		return nil
	}
	last := len(w.idle) - 1
	tasks := w.idle[last]
	w.idle = w.idle[:last]
	w.unused = min(w.unused, last)
	return tasks
}

// serve runs turns until none comes for a moment, or turns no longer start.
func (w *workers) serve(t task) {
	defer t.target.q.working.Done()
	tasks := make(chan task, 1)
	for more := true; more; {
		t.target.take(t.run, t.turn)
		t = task{} // which may be the last to know the job
		if !w.wait(tasks) {
			return
		}
		t, more = <-tasks
	}
}

// wait makes a worker an idle one. It is false if turns no longer start.
func (w *workers) wait(tasks chan task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.idle = append(w.idle, tasks)
	if w.look == nil {
		w.look = time.AfterFunc(workerIdle, w.tidy)
	}
	return true
}

// tidy ends the workers that were idle all the time since the last look.
func (w *workers) tidy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dismiss(w.unused)
	w.unused, w.look = len(w.idle), nil
	if w.unused > 0 {
		w.look = time.AfterFunc(workerIdle, w.tidy)
	}
}

// dismiss ends the first n idle workers; w.mu is held.
func (w *workers) dismiss(n int) {
	for _, tasks := range w.idle[:n] {
		close(tasks)
	}
	w.idle = slices.Delete(w.idle, 0, n)
}

// open has workers wait for turns from now on.
func (w *workers) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = false
}

// close ends the workers that are idle, and has none wait any more.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.dismiss(len(w.idle))
	if w.look != nil {
		w.look.Stop()
	}
	w.unused, w.look = 0, nil
}

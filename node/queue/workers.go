package queue

import "time"

// workers are the pool of goroutines that run turns. One that is done waits a moment for another turn:
// its stack has grown to what a turn needs, and growing a new one costs more than all else that starts a
// turn.
type workers struct{ tasks chan task }

// task is a turn to run.
type task struct {
	target *target
	run    *run
	turn   *Turn
}

// workerIdle is how long a worker waits for another turn.
const workerIdle = time.Second

func newWorkers() workers { return workers{tasks: make(chan task)} }

// start has a turn run, by a worker that is idle or by a new one. It does not block.
func (w workers) start(t task) {
	select {
	case w.tasks <- t:
	default:
		t.target.q.working.Add(1)
		go w.serve(t)
	}
}

// serve runs turns until none comes for a moment, or turns no longer start.
func (w workers) serve(t task) {
	defer t.target.q.working.Done()
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		t.target.take(t.run, t.turn)
		idle.Reset(workerIdle)
		select {
		case t = <-w.tasks:
		case <-t.run.reads.Done():
			return
		case <-idle.C:
			return
		}
	}
}

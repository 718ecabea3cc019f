package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// check compares the queue with the model, and with what its comment promises.
func (w *world) check() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	var want Stats
	for _, x := range w.works {
		if x.phase < atEnd {
			want.Backlog++
		}
		switch x.phase {
		case atReserve, atInsert, atLane, atWithdrawn, atRemoved:
			want.Waiting++
		}
	}
	for _, c := range w.calls {
		if !c.released {
			want.InFlight++
		}
		if c.recorded && c.then == atEnd {
			want.Backlog++ // until it returns
		}
	}
	got := w.queue.Stats()
	want.Lanes, want.Targets = got.Lanes, got.Targets
	if got != want {
		w.err = fmt.Errorf("stats are %+v, want %+v", got, want)
	}
	w.promises()
}

func (w *world) promises() {
	for _, l := range w.lanes {
		t := w.queue.find(l.Target)
		if t == nil {
			continue
		}
		ln := t.lanes[l.Tenant]
		for _, e := range w.disk.between(l, 0, ^job.Order(0), 1<<30) {
			switch {
			case t.present[e.ID] != nil:
			case ln == nil:
				w.err = fmt.Errorf("%v is on disk, and its lane is unknown", e)
			case e.Order <= ln.high, !ln.more:
				w.err = fmt.Errorf("%v is only on disk; high %d, more %v", e, ln.high, ln.more)
			}
		}
		if ln != nil && ln.more && !ln.refilling && len(ln.window) <= w.queue.cfg.Window/2 {
			w.err = fmt.Errorf("lane %v has more, a window of %d, and is not being refilled", l, len(ln.window))
		}
	}
}

// drain brings all work to its end.
func (w *world) drain() {
	if w.stopped == nil {
		w.toggle(0)
	}
	for range 20 * (len(w.works) + 2) {
		if w.check(); w.err != nil {
			return
		}
		w.deliver(3) // one target
		w.deliver(5) // and the other
		synctest.Wait()
		for _, step := range []func(int){w.cancel, w.push, w.insert, w.release, w.finish, w.remove, w.gone, w.drop} {
			step(0)
			synctest.Wait()
		}
		w.record(1)
		time.Sleep(time.Minute)
	}
	w.check()
	for _, x := range w.works {
		if x.phase < atEnd {
			w.failf("%v is left in phase %v", x.Entry, x.phase)
		}
	}
	if s := w.queue.Stats(); s != (Stats{}) {
		w.failf("left: %+v", s)
	}
}

// abandon ends a world that went wrong, so that its bubble can end.
func (w *world) abandon() {
	w.disk.read = nil
	if w.stopped != nil {
		w.stop()
	}
	for range len(w.works) + 1 {
		synctest.Wait()
		for _, c := range w.calls {
			close(c.verdict)
		}
		w.calls = nil
	}
}

// restore leaves some work for a queue that has not run, as a process that died.
func (w *world) restore(n int) {
	for i := range n {
		l := w.lanes[i%len(w.lanes)]
		w.ids++
		x := &work{Entry: w.disk.insert(l, id(w.ids)), phase: atLane}
		w.works = append(w.works, x)
		w.queue.Restore(x.Entry)
		w.ids++
		w.works = append(w.works, &work{Entry: job.Entry{Lane: l, ID: id(w.ids)}, phase: atDue})
		w.queue.RestoreWaiting(l, id(w.ids))
	}
}

// steps are what a script may do, each as often as it is worth.
func (w *world) steps() [32]func(int) {
	return [32]func(int){
		w.sleep, w.add, w.add, w.add, w.add, w.add, w.add, w.reserve, w.reserve, w.insert, w.insert, w.push, w.push,
		w.cancel, w.settle, w.again, w.resume, w.drop, w.withdraw, w.withdraw, w.remove, w.gone, w.release, w.release,
		w.release, w.record, w.record, w.finish, w.finish, w.deliver, w.deliver, w.either,
	}
}

// either is what a script does rarely.
func (w *world) either(n int) {
	if n%3 == 0 {
		w.toggle(n)
		return
	}
	w.position(n)
}

// die draws from 0 to 31, each as likely as the other: rapid's own numbers are mostly small.
func die(t *rapid.T) (n int) {
	for range 5 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
}

// Whatever happens in whatever order, no work is lost, none has two turns, and lanes keep their order.
func TestNothingIsLostOrSentTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		window := rapid.IntRange(1, 5).Draw(rt, "window")
		left := rapid.IntRange(0, 12).Draw(rt, "left by the last process")
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int { return [2]int{die(t), die(t)} }), 60, 300).Draw(rt, "script")
		var err error
		synctest.Test(t, func(*testing.T) {
			w := newWorld(window)
			w.restore(left)
			w.toggle(0)
			steps := w.steps()
			for _, s := range script {
				w.check()
				if w.err != nil {
					break
				}
				steps[s[0]](s[1])
			}
			if w.err == nil {
				w.drain()
			}
			if w.err != nil {
				w.abandon()
			} else {
				w.toggle(0)
			}
			err = w.err
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

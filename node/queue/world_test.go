package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// phase is where a piece of work stands in the model.
type phase int

const (
	atReserve phase = iota // reserved, not stored
	atInsert               // stored, not pushed
	atLane                 // pushed
	atTurn                 // its turn is running, nothing is recorded
	atDue                  // recorded as due
	atWithdrawn
	atRemoved // withdrawn, and ended in the store
	atEnd
	atRest // ended without a turn: only the store knows
)

// work is one life of a job in the line; an id may live again.
type work struct {
	job.Entry
	phase   phase
	place   *Place
	resumed bool
}

// call is one turn that has not returned.
type call struct {
	turn               *Turn
	work               *work
	released, recorded bool
	then               phase // where the work stands once it is recorded
	verdict            chan Verdict
}

// world is a queue and a model of what must be in it. The queue's store is the disk; a reading of it
// returns when the script says so.
type world struct {
	queue *Queue
	disk  *disk
	lanes []job.Lane
	works []*work
	ids   int

	gates   map[string]chan error // by target: what its next reading returns
	stop    context.CancelFunc
	stopped chan error // the result of Run; nil if it is not running

	mu    sync.Mutex // guards calls and err: turns write them
	calls []*call
	err   error
}

func (w *world) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func newWorld(window int) *world {
	w := &world{
		disk:  newDisk(),
		gates: map[string]chan error{"http://a": make(chan error), "http://b": make(chan error)},
		lanes: []job.Lane{laneOf("a", 1), laneOf("a", 2), laneOf("b", 1)},
	}
	w.disk.read = func(ctx context.Context, l job.Lane) error {
		select {
		case err := <-w.gates[l.Target]:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.queue = New(Config{Window: window, Settings: settings(1e12, 1), Backlog: w.disk, Runner: runner(w.run)})
	return w
}

// run is the Runner: it checks the turn, and lets the script say what happens next.
func (w *world) run(t *Turn) Verdict {
	c := &call{turn: t, verdict: make(chan Verdict)}
	w.mu.Lock()
	for _, other := range w.calls {
		if other.turn.Entry.ID == t.Entry.ID && w.err == nil {
			w.err = fmt.Errorf("%v has two turns at a time", t.Entry)
		}
	}
	for _, x := range w.works {
		if x.Entry == t.Entry && x.phase == atLane {
			c.work = x
		}
		if x.Lane == t.Entry.Lane && x.phase == atLane && x.Order < t.Entry.Order && !w.busy(x.ID) && w.err == nil {
			w.err = fmt.Errorf("%v is sent before %v", t.Entry, x.Entry)
		}
	}
	if w.err == nil && (c.work == nil || w.stopped == nil) {
		w.err = fmt.Errorf("%v has no claim to a turn, running %v", t.Entry, w.stopped != nil)
	}
	if c.work != nil {
		c.work.phase = atTurn
	}
	w.calls = append(w.calls, c)
	slices.SortFunc(w.calls, func(a, b *call) int { return cmp.Compare(a.turn.Entry.Order, b.turn.Entry.Order) })
	w.mu.Unlock()
	return <-c.verdict
}

// busy reports whether a turn of the id has not returned.
func (w *world) busy(id job.ID) bool {
	for _, c := range w.calls {
		if c.turn.Entry.ID == id {
			return true
		}
	}
	return false
}

// pick returns the n-th work that stands in one of the phases, nil if there is none.
func (w *world) pick(n int, phases ...phase) *work {
	var found []*work
	for _, x := range w.works {
		for _, p := range phases {
			if x.phase == p {
				found = append(found, x)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[n%len(found)]
}

func (w *world) reserve(n int) {
	w.ids++
	x := &work{Entry: job.Entry{Lane: w.lanes[n%len(w.lanes)], ID: id(w.ids)}}
	x.place = w.queue.Reserve(x.Lane, x.ID)
	w.works = append(w.works, x)
}

// again lets an ended job live again.
func (w *world) again(n int) {
	if x := w.pick(n, atEnd, atRest); x != nil && w.alive(x.ID) == 0 {
		y := &work{Entry: job.Entry{Lane: x.Lane, ID: x.ID}}
		y.place = w.queue.Reserve(y.Lane, y.ID)
		w.works = append(w.works, y)
	}
}

func (w *world) alive(id job.ID) (n int) {
	for _, x := range w.works {
		if x.ID == id && x.phase < atEnd {
			n++
		}
	}
	return n
}

func (w *world) insert(n int) {
	if x := w.pick(n, atReserve); x != nil {
		x.Entry = w.disk.insert(x.Lane, x.ID)
		x.phase = atInsert
	}
}

func (w *world) push(n int) {
	if x := w.pick(n, atInsert); x != nil {
		x.phase = atLane
		x.place.Push(x.Entry, nil)
		x.place.Push(x.Entry, nil)
		x.place.Cancel()
	}
}

// add is the three steps of new work at once.
func (w *world) add(n int) {
	w.reserve(n)
	x := w.works[len(w.works)-1]
	x.Entry, x.phase = w.disk.insert(x.Lane, x.ID), atLane
	x.place.Push(x.Entry, nil)
}

func (w *world) cancel(n int) {
	if x := w.pick(n, atReserve); x != nil {
		x.place.Cancel()
		x.place.Push(x.Entry, nil)
		x.phase = atEnd
		if x.resumed {
			x.phase = atDue
		}
	}
}

// settle ends work between its insertion and its push, as a delivery that a stream made needless.
func (w *world) settle(n int) {
	if x := w.pick(n, atInsert); x != nil && !x.resumed {
		w.disk.remove(x.Entry)
		x.place.Cancel()
		x.phase = atRest
	}
}

func (w *world) resume(n int) {
	if x := w.pick(n, atDue); x != nil {
		x.place, x.resumed, x.phase = w.queue.Resume(x.Lane, x.ID), true, atReserve
	}
}

// drop ends work that is due.
func (w *world) drop(n int) {
	if x := w.pick(n, atDue); x != nil {
		w.queue.Gone(x.Lane, x.ID)
		x.phase = atEnd
	}
}

// withdraw checks that exactly what waits can be withdrawn.
func (w *world) withdraw(n int) {
	x := w.pick(n/2, atLane, atLane, atWithdrawn)
	if n%2 == 0 {
		x = w.pick(n/2, atReserve, atInsert, atTurn, atDue, atEnd)
	}
	if x == nil {
		return
	}
	want := x.phase == atLane && !w.busy(x.ID) || x.phase == atWithdrawn
	if got := w.queue.Withdraw(x.Entry); got != want {
		w.failf("Withdraw(%v) in phase %v is %v", x.Entry, x.phase, got)
	}
	if want {
		x.phase = atWithdrawn
	}
}

func (w *world) remove(n int) {
	if x := w.pick(n, atWithdrawn); x != nil {
		w.disk.remove(x.Entry)
		x.phase = atRemoved
	}
}

func (w *world) gone(n int) {
	if x := w.pick(n, atRemoved); x != nil {
		x.phase = atRest
		w.queue.Gone(x.Lane, x.ID)
	}
}

// release frees the slot of a turn.
func (w *world) release(n int) {
	if c := w.pickCall(n, func(c *call) bool { return !c.released }); c != nil {
		c.released = true
		c.turn.Release(pace.Signal{})
	}
}

// record stores how a turn ends.
func (w *world) record(n int) {
	c := w.pickCall(n/2, func(c *call) bool { return !c.recorded })
	if c == nil {
		return
	}
	c.recorded = true
	w.disk.remove(c.work.Entry)
	c.then = atEnd
	if n%2 == 0 {
		c.then = atDue
	}
	c.work.phase = c.then
}

// finish lets a turn return.
func (w *world) finish(n int) {
	c := w.pickCall(n, func(c *call) bool { return c.recorded })
	if c == nil {
		return
	}
	w.mu.Lock()
	for i := range w.calls {
		if w.calls[i] == c {
			w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
			break
		}
	}
	w.mu.Unlock()
	verdict := Ended
	if c.then == atDue {
		verdict = Waits
	}
	c.verdict <- verdict
}

func (w *world) pickCall(n int, is func(*call) bool) *call {
	var found []*call
	for _, c := range w.calls {
		if is(c) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[n%len(found)]
}

// deliver lets a reading return that waits for it, well or with an error.
func (w *world) deliver(n int) {
	var err error
	if n/3%3 == 0 {
		err = errors.New("the disk is tired")
	}
	select {
	case w.gates[w.lanes[n%len(w.lanes)].Target] <- err:
	default:
	}
}

func (w *world) sleep(n int) { time.Sleep(time.Duration(n%40) * time.Second) }

// toggle stops or starts the queue.
func (w *world) toggle(int) {
	if w.stopped == nil {
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		w.stop, w.stopped = cancel, stopped
		go func() { stopped <- w.queue.Run(ctx) }()
		return
	}
	if len(w.calls) > 0 {
		return // Run waits for them
	}
	w.stop()
	if err := <-w.stopped; err != nil {
		w.failf("Run: %v", err)
	}
	w.stopped = nil
}

// position checks that what waits has a position, and nothing else does.
func (w *world) position(n int) {
	x := w.pick(n, atReserve, atInsert, atLane, atTurn, atDue, atWithdrawn, atRemoved, atEnd)
	if x == nil {
		return
	}
	standing, ok, err := w.queue.Standing(context.Background(), x.Entry)
	at := standing.Position
	before, around := 1, 1
	for _, y := range w.works {
		if y.Lane == x.Lane && y.Order < x.Order && y.phase == atLane && !w.busy(y.ID) {
			before++
		}
		if y.Lane == x.Lane {
			around++
		}
	}
	want := x.phase == atLane && !w.busy(x.ID)
	if err != nil || ok != want || ok && (at < before || at > around) {
		w.failf("Position(%v) in phase %v is %d, %v, %v; %d are before it", x.Entry, x.phase, at, ok, err, before)
	}
}

package main

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// pacedTarget answers calls at any number of addresses, and writes down when each one came.
type pacedTarget struct {
	clk   clock
	takes func(seq int) time.Duration // how long the answer to a job's call takes
	gate  chan struct{}               // closed when calls are answered; until then they stay open

	mu       sync.Mutex // guards what follows
	calls    []arrival  // in the order of their coming
	open     int        // calls that have no answer yet
	mostOpen int
	says     []byte // the answer
	said     int64  // when it was first given, ns of the shared clock; 0: not yet
}

// arrival is one call.
type arrival struct {
	at  int64 // ns of the shared clock
	seq int   // which job
}

func newPacedTarget(clk clock, takes func(seq int) time.Duration) *pacedTarget {
	return &pacedTarget{clk: clk, takes: takes, gate: make(chan struct{}), says: []byte(answer)}
}

// serve answers what comes at the listeners until ctx ends.
func (t *pacedTarget) serve(ctx context.Context, listeners []net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, ln := range listeners {
		group.Go(func() error {
			return serve(ctx, ln, func(m *message) []byte { return t.answer(ctx, m) })
		})
	}
	return group.Wait()
}

func (t *pacedTarget) answer(ctx context.Context, m *message) []byte {
	seq := int(seqOf(m.path()))
	t.enter(seq)
	select {
	case <-t.gate:
	case <-ctx.Done():
	}
	if d := t.takes(seq); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return t.leave()
}

func (t *pacedTarget) enter(seq int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, arrival{t.clk.now(), seq})
	t.open++
	t.mostOpen = max(t.mostOpen, t.open)
}

// leave returns the answer. A call counts as ended before that is written, so that it never counts
// beside one that took its slot.
func (t *pacedTarget) leave() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if t.said == 0 {
		t.said = t.clk.now()
	}
	return t.says
}

// say adds a header line to all answers from now on; an empty one adds nothing.
func (t *pacedTarget) say(header string) {
	text := answer
	if header != "" {
		text = strings.Replace(answer, "\r\n", "\r\n"+header+"\r\n", 1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.says, t.said = []byte(text), 0
}

// firstSaid is when an answer was first given as it is now; 0 if that has not been.
func (t *pacedTarget) firstSaid() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said
}

// since returns the calls from a moment on.
func (t *pacedTarget) since(at int64) []arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.calls[from(t.calls, at):])
}

// count is how many calls have come.
func (t *pacedTarget) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}

// most is how many calls have been open at a time.
func (t *pacedTarget) most() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mostOpen
}

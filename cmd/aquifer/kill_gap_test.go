//go:build crashpoints

package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/crashpoint"
)

// gap is one place between two steps of a job's life at which the process dies.
type gap struct {
	name string
	// point is where it kills itself; empty: the target or the receiver kills it in the middle of a
	// request.
	point     crashpoint.Point
	receiving bool // the receiver does it
	// want is what then becomes of the only job there is.
	want story
}

// story is how one job came to its end.
type story struct {
	attempts   string // as shown: status or error class of each
	calls      string // numbers of the attempts that reached the target
	deliveries int    // that reached the receiver
}

func gaps() []gap {
	return []gap{
		{name: "stored", point: crashpoint.Stored, want: story{"200", "1", 1}},
		{name: "begun", point: crashpoint.Begun, want: story{"crashed_worker 200", "2", 1}},
		{name: "asked", want: story{"crashed_worker 200", "1 2", 1}},
		{name: "answered", point: crashpoint.Answered, want: story{"crashed_worker 200", "1 2", 1}},
		{name: "recorded", point: crashpoint.Recorded, want: story{"200", "1", 1}},
		{name: "receiving", receiving: true, want: story{"200", "1", 2}},
		{name: "delivered", point: crashpoint.Delivered, want: story{"200", "1", 2}},
		{name: "settled", point: crashpoint.Settled, want: story{"200", "1", 1}},
	}
}

func TestKL01_GapsAreAllThereAre(t *testing.T) {
	known := map[crashpoint.Point]bool{}
	for _, g := range gaps() {
		known[g.point] = true
	}
	for _, p := range crashpoint.Points() {
		if !known[p] {
			t.Errorf("no test dies at %s", p)
		}
	}
}

// TestKL01_EachGap lets the process die in each gap, in both modes: once with nothing to do but one
// job, where there is only one thing that may come of it, and at several moments while clients are
// pressing.
func TestKL01_EachGap(t *testing.T) {
	for _, m := range modes() {
		for _, g := range gaps() {
			t.Run(fmt.Sprintf("%s/%s/alone", m.name, g.name), func(t *testing.T) { dieAlone(t, m, g) })
			for _, n := range []int{2, 9, 20} {
				t.Run(fmt.Sprintf("%s/%s/%d", m.name, g.name, n), func(t *testing.T) { dieInCrowd(t, m, g, n) })
			}
		}
	}
}

// doomed starts a node that dies in the gap when it comes there for the n-th time.
func doomed(t *testing.T, w *world, m mode, g gap, n int) *lives {
	t.Helper()
	l := newLives(t, t.TempDir(), fastTargets, m.setting)
	if g.point != "" {
		l.begin(fmt.Sprintf("AQUIFER_CRASH_AT=%s:%d", g.point, n))
		return l
	}
	var passes atomic.Int64
	w.onMeeting(func(r *http.Request, delivery bool) {
		if delivery == g.receiving && passes.Add(1) == int64(n) {
			_ = syscall.Kill(int(l.pid.Load()), syscall.SIGKILL) // the test waits for the death
			<-r.Context().Done()
		}
	})
	l.begin()
	return l
}

func dieAlone(t *testing.T, m mode, g gap) {
	w := newWorld(t)
	l := doomed(t, w, m, g, 1)
	c := l.client()
	o := newOrder(w, "alone", "k", "/fast", "/fast")
	placed := make(chan error, 1)
	go func() { placed <- o.place(t.Context(), c) }()
	l.died()
	l.begin()
	if err := <-placed; err != nil {
		t.Fatal(err)
	}
	if g.point == crashpoint.Stored && !o.duplicate {
		t.Error("the job that was stored is not known")
	}
	h := finish(t, l, w, c, []*order{o}, 1)
	if got := storyOf(h[0]); got != g.want {
		t.Errorf("came to its end as %+v, want %+v", got, g.want)
	}
}

func storyOf(h *history) story {
	var attempts, calls []string
	for _, a := range h.job.Attempts {
		if a.Error != "" {
			attempts = append(attempts, string(a.Error))
		} else {
			attempts = append(attempts, fmt.Sprint(a.ResponseStatus))
		}
	}
	for _, c := range h.calls {
		calls = append(calls, fmt.Sprint(c.attempt))
	}
	return story{strings.Join(attempts, " "), strings.Join(calls, " "), len(h.deliveries)}
}

func dieInCrowd(t *testing.T, m mode, g gap, n int) {
	const clients, each = 4, 8
	w := newWorld(t)
	l := doomed(t, w, m, g, n)
	c := l.client()
	var orders []*order
	var placing sync.WaitGroup
	for user := range clients {
		var mine []*order
		for k := range each {
			mine = append(mine, newOrder(w, fmt.Sprint("user", user), fmt.Sprint("k", k), "/fast", "/fast"))
		}
		orders = append(orders, mine...)
		placing.Go(func() { placeAll(t, c, mine) })
	}
	l.died()
	l.begin()
	placing.Wait()
	finish(t, l, w, c, orders, 1)
}

// placeAll is a client that submits one job after another.
func placeAll(t *testing.T, c *client.Client, orders []*order) {
	for _, o := range orders {
		if err := o.place(t.Context(), c); err != nil {
			t.Errorf("%s of %s: %v", o.IdempotentKey, o.UserID, err)
			return
		}
	}
}

// finish waits for the end of all work, judges what became of each order, and stops the node.
func finish(t *testing.T, l *lives, w *world, c *client.Client, orders []*order, kills int) []*history {
	t.Helper()
	known := map[string]*history{}
	var all []*history
	for _, o := range orders {
		h := &history{order: o, kills: kills}
		if o.id != "" {
			h.job = o.settle(t, c, patience)
		}
		known[o.id] = h
		all = append(all, h)
	}
	if len(known) != len(all) {
		t.Errorf("%d orders became %d jobs", len(all), len(known))
	}
	nothingLeft(t, c)
	l.stop()
	for _, h := range all {
		h.calls, h.deliveries = w.of(h.id)
		for _, fault := range h.faults() {
			t.Errorf("job %s, %s of %s: %s", h.id, h.IdempotentKey, h.UserID, fault)
		}
	}
	for _, id := range w.ids() {
		if known[id] == nil {
			t.Errorf("job %q was never acknowledged, and its key was", id)
		}
	}
	return all
}

// nothingLeft checks that the node knows of no work.
func nothingLeft(t *testing.T, c *client.Client) {
	t.Helper()
	health, err := c.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if health.Queues.Backlog != 0 || health.Queues.Active != 0 {
		t.Errorf("queues after the end: %+v", health.Queues)
	}
	for _, q := range []client.Query{{Status: "queued"}, {Webhook: "pending"}} {
		for j, err := range c.List(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("job %s is %s with webhook %s after the end", j.JobID, j.Status, j.Webhook.State)
		}
	}
}

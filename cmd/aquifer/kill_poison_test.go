//go:build crashpoints

package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// TestKL01_JobThatKills is a job in whose every attempt the process dies. It must not take the node
// down for ever: it fails after three such attempts, or as many as it may make, and its webhook says so.
func TestKL01_JobThatKills(t *testing.T) {
	unlimited := -1
	tests := []struct {
		name    string
		retries *int
		deaths  int
	}{
		{"retries as usual", nil, maxCrashes},
		{"retries for ever", &unlimited, maxCrashes},
		{"one retry", new(1), 2},
		{"no retry", new(0), 1},
	}
	for _, m := range modes() {
		for _, tt := range tests {
			t.Run(m.name+"/before the call/"+tt.name, func(t *testing.T) { killsBefore(t, m, tt.retries, tt.deaths) })
			t.Run(m.name+"/in the call/"+tt.name, func(t *testing.T) { killsWithin(t, m, tt.retries, tt.deaths) })
		}
	}
}

// killsBefore dies before anything is sent, in each process that begins an attempt.
func killsBefore(t *testing.T, m mode, retries *int, deaths int) {
	w := newWorld(t)
	l := newLives(t, t.TempDir(), oneByOne, m.setting, "AQUIFER_CRASH_AT=begun:1")
	c := l.client()
	o := newOrder(w, "killer", "k", "/fast", "/fast")
	o.MaxRetries = retries
	placed := make(chan error, 1)
	go func() { placed <- o.place(t.Context(), c) }()
	for range deaths {
		l.begin()
		l.died()
	}
	l.begin()
	if err := <-placed; err != nil {
		t.Fatal(err)
	}
	h := &history{order: o, job: o.settle(t, c, patience)}
	l.stop()
	h.calls, h.deliveries = w.of(o.id)
	checkKiller(t, h, deaths, 0)
}

// killsWithin dies by the hand of the target, and lets the jobs behind wait for their turn.
func killsWithin(t *testing.T, m mode, retries *int, deaths int) {
	w := newWorld(t)
	l := newLives(t, t.TempDir(), oneByOne, m.setting)
	c := l.client()
	ready := make(chan struct{})
	w.onMeeting(func(r *http.Request, delivery bool) {
		if r.URL.Path == "/poison" && !delivery {
			select {
			case <-ready:
			case <-r.Context().Done():
			}
			_ = syscall.Kill(int(l.pid.Load()), syscall.SIGKILL) // the test waits for the death
			<-r.Context().Done()
		}
	})
	o := newOrder(w, "killer", "k", "/poison", "/fast")
	o.MaxRetries = retries
	behind := []*order{newOrder(w, "killer", "behind", "/fast", "/fast"), newOrder(w, "other", "behind", "/fast", "/fast")}
	for i := range deaths {
		l.begin()
		if i == 0 {
			placeAll(t, c, append([]*order{o}, behind...))
			close(ready)
		}
		l.died()
	}
	l.begin()
	h := &history{order: o, job: o.settle(t, c, patience)}
	h.calls, h.deliveries = w.of(o.id)
	checkKiller(t, h, deaths, deaths)
	w.forget(o.id)
	for _, h := range finish(t, l, w, c, behind, deaths) {
		if got, want := storyOf(h), (story{"200", "1", 1}); h.UserID == o.UserID && got != want {
			t.Errorf("the job behind came to its end as %+v, want %+v", got, want)
		}
	}
}

func checkKiller(t *testing.T, h *history, deaths, calls int) {
	t.Helper()
	if h.job.Status != job.Failed || h.job.Reason != string(job.CrashedWorker) || h.job.Webhook.State != job.WebhookDelivered {
		t.Errorf("ended as %s %q with webhook %s", h.job.Status, h.job.Reason, h.job.Webhook.State)
	}
	if len(h.job.Attempts) != deaths || h.crashed() != deaths || len(h.calls) != calls {
		t.Errorf("attempts %+v and %d calls, want %d that crashed and %d calls", h.job.Attempts, len(h.calls), deaths, calls)
	}
	if len(h.deliveries) != 1 || !strings.Contains(h.deliveries[0].body, `"reason":"crashed_worker"`) {
		t.Errorf("delivered: %s", fmt.Sprint(h.deliveries))
	}
}

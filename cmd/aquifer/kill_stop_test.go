//go:build crashpoints

package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// TestKL01_StopInTheMiddle stops the node again and again while a call and a delivery hang, by a SIGTERM
// that meets its deadline. Nothing is lost, and however often that happens, it is no crash.
func TestKL01_StopInTheMiddle(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel() // it is spent waiting for the deadlines
			stopInTheMiddle(t, m)
		})
	}
}

func stopInTheMiddle(t *testing.T, m mode) {
	const stops = maxCrashes + 1
	w := newWorld(t)
	l := newLives(t, t.TempDir(), oneByOne, m.setting, "AQUIFER_SHUTDOWN_TIMEOUT_SECONDS=1")
	c := l.client()
	var hanging atomic.Bool
	hanging.Store(true)
	came := make(chan string, 16)
	w.onMeeting(func(r *http.Request, delivery bool) {
		if r.URL.Path == "/hang" && hanging.Load() {
			came <- r.URL.Path
			<-r.Context().Done()
		}
	})
	orders := []*order{
		newOrder(w, "u", "delivered late", "/fast", "/hang"),
		newOrder(w, "u", "cut", "/hang", "/fast"),
		newOrder(w, "u", "behind", "/fast", "/fast"),
	}
	for i := range stops {
		l.begin()
		if i == 0 {
			placeAll(t, c, orders)
		}
		for range 2 { // the delivery and a call
			select {
			case <-came:
			case <-time.After(patience):
				t.Fatalf("nothing hangs:\n%s", l.log())
			}
		}
		l.stop()
		if stopped := l.line(`"left_on_disk":`); !strings.Contains(stopped, `"left_on_disk":3`) {
			t.Errorf("left two jobs and a delivery: %s", stopped)
		}
	}
	hanging.Store(false)
	l.begin()
	for _, h := range finish(t, l, w, c, orders, stops) {
		if h.job.Status != job.Completed {
			t.Errorf("%s is %s (%s)", h.IdempotentKey, h.job.Status, h.job.Reason)
		}
		if h.IdempotentKey == "cut" {
			want := strings.Repeat("crashed_worker ", stops) + "200"
			if got := storyOf(h); got.attempts != want {
				t.Errorf("attempts that were cut: %s, want %s", fmt.Sprint(got), want)
			}
		}
	}
}

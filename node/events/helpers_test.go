package events_test

import (
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

var testID = job.ID{0: 1, 15: 7}

// life is a job as its node moves it: each method is a transition and returns the event of it.
type life struct{ s job.Snapshot }

func newLife() *life {
	return &life{job.Snapshot{Job: &job.Job{ID: testID, Request: job.Request{MaxRetries: 4}}}}
}

func (l *life) begin() events.Event {
	l.s.State, _ = l.s.State.Begin(l.s.State.Tried + 1)
	return events.Dispatching(l.s)
}

func (l *life) retry() events.Event {
	a := job.Attempt{Number: l.s.State.Tried, StartedAt: 1000, DurationMS: 20, Status: 503, RetryWaitMS: 2000}
	l.s.State, _ = l.s.State.Retry(a, 3025)
	return events.Retrying(l.s, "upstream returned 503")
}

func (l *life) requeue() { l.s.State.Order, l.s.State.DueAt = 9, 0 }

func (l *life) complete(body string) events.Event {
	return l.end(job.End{
		Status: job.Completed, Last: &job.Attempt{Number: l.s.State.Tried, Status: 200},
		Result: &job.Result{Status: 200, Body: []byte(body)},
	})
}

func (l *life) drop() events.Event {
	return l.end(job.End{Status: job.Failed, Reason: string(job.DeadlineExceeded)})
}

func (l *life) end(e job.End) events.Event {
	l.s.State, _ = l.s.State.Finish(e)
	return events.Terminal(l.s, nil)
}

// position is what a ticker would publish now.
func (l *life) position(n int) events.Event {
	return events.Position(testID, events.CursorAt(l.s).Seq, n, new(int64(1000)))
}

// tried is a life after n attempts that failed.
func tried(n int) *life {
	l := newLife()
	for range n {
		l.begin()
		l.retry()
	}
	return l
}

// row writes events as "1 queued, 2 dispatching".
func row(list []events.Event) string {
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = e.ID() + " " + e.Name
	}
	return strings.Join(words, ", ")
}

func wantRow(t *testing.T, got []events.Event, want string) {
	t.Helper()
	if r := row(got); r != want {
		t.Errorf("got  %s\nwant %s", r, want)
	}
}

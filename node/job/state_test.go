package job_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// step is a transition that must be accepted.
func step(t rapid.TB) func(job.State, bool) job.State {
	return func(s job.State, ok bool) job.State {
		t.Helper()
		if !ok {
			t.Fatalf("refused in %+v", s)
		}
		return s
	}
}

// refused checks that a transition was refused and changed nothing.
func refused(t rapid.TB, what string, before, after job.State, ok bool) {
	t.Helper()
	if ok || !reflect.DeepEqual(before, after) {
		t.Errorf("%s: ok is %v, %+v became %+v", what, ok, before, after)
	}
}

func TestLifeOfAJob(t *testing.T) {
	must := step(t)
	s := job.State{Order: 7}
	if s.Phase() != job.Queued {
		t.Fatalf("a new job is %s", s.Phase())
	}
	s = must(s.Begin(1))
	if s.Phase() != job.Queued || s.Tried != 1 || s.Order != 7 {
		t.Fatalf("after Begin: %+v", s)
	}
	first := job.Attempt{Number: 1, StartedAt: 100, DurationMS: 5, Status: 503, RetryWaitMS: 1000, RetryAfter: "1"}
	s = must(s.Retry(first, 1105))
	if s.Phase() != job.Queued || s.DueAt != 1105 || s.Order != 0 {
		t.Fatalf("after Retry: %+v", s)
	}
	s.Order, s.DueAt = 9, 0 // the store has moved it to the tail of its lane
	s = must(s.Begin(2))
	last := job.Attempt{Number: 2, StartedAt: 1200, DurationMS: 3, Status: 200}
	s = must(s.Finish(job.End{Status: job.Completed, At: 1203, Keep: 60_000, Last: &last, Result: &job.Result{Status: 200}}))
	want := job.State{
		Status: job.Completed, Tried: 2, Attempts: []job.Attempt{first, last}, EndedAt: 1203, ExpiresAt: 61_203,
		Result: &job.Result{Status: 200},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestBeginTakesAWaitingRetry(t *testing.T) {
	s := step(t)(job.State{Tried: 1, DueAt: 5}.Begin(2))
	if s.DueAt != 0 || s.Tried != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestFinishWithoutAnAttempt(t *testing.T) {
	s := step(t)(job.State{Order: 1}.Finish(job.End{Status: job.Failed, At: 10, Keep: 5, Reason: "execution_deadline_exceeded"}))
	if s.Phase() != job.Failed || s.Reason != "execution_deadline_exceeded" || !s.Dropped() || s.Result != nil || s.Attempts != nil || s.ExpiresAt != 15 {
		t.Errorf("got %+v", s)
	}
}

// completed(2), queued(2), dispatching(1): what comes late moves nothing.
func TestST01_StatesOnlyGoForward(t *testing.T) {
	must := step(t)
	s := must(job.State{Order: 1}.Begin(1))
	s = must(s.Retry(job.Attempt{Number: 1, Status: 500}, 9))
	s = must(s.Begin(2))
	ended := must(s.Finish(job.End{Status: job.Completed, At: 10, Last: &job.Attempt{Number: 2, Status: 200}, Result: &job.Result{Status: 200}}))
	for _, n := range []int{1, 2, 3} {
		after, ok := ended.Retry(job.Attempt{Number: n}, 20)
		refused(t, "Retry", ended, after, ok)
		after, ok = ended.Begin(n)
		refused(t, "Begin", ended, after, ok)
		after, ok = ended.Finish(job.End{Status: job.Failed, At: 20, Last: &job.Attempt{Number: n}})
		refused(t, "Finish", ended, after, ok)
	}
	after, ok := ended.Finish(job.End{Status: job.Failed, At: 20})
	refused(t, "the deadline", ended, after, ok)
}

func TestST01_AttemptsComeInOrder(t *testing.T) {
	s := step(t)(job.State{}.Begin(1))
	for _, n := range []int{-1, 0, 1, 3} {
		after, ok := s.Begin(n)
		refused(t, "Begin", s, after, ok)
	}
	for _, n := range []int{0, 2} {
		after, ok := s.Retry(job.Attempt{Number: n}, 1)
		refused(t, "Retry", s, after, ok)
	}
}

// Attempt 1 timed out, attempt 2 is open, the answer of attempt 1 arrives after all.
func TestST02_LateAnswerDecidesNothing(t *testing.T) {
	must := step(t)
	s := must(job.State{Order: 1}.Begin(1))
	s = must(s.Retry(job.Attempt{Number: 1, StartedAt: 1, DurationMS: 30_000, Error: job.Timeout, RetryWaitMS: 1000}, 31_001))
	s = must(s.Begin(2))
	late := job.Attempt{Number: 1, StartedAt: 1, DurationMS: 31_000, Status: 200}
	after, ok := s.Finish(job.End{Status: job.Completed, At: 31_001, Last: &late})
	refused(t, "Finish by attempt 1", s, after, ok)

	before := slices.Clone(s.Attempts)
	shown := s.Late(late)
	want := []job.Attempt{{Number: 1, StartedAt: 1, DurationMS: 30_000, Status: 200, Error: job.Timeout, RetryWaitMS: 1000, Late: true}}
	if shown.Phase() != job.Queued || shown.Tried != 2 || !reflect.DeepEqual(shown.Attempts, want) {
		t.Errorf("got %+v", shown)
	}
	if !reflect.DeepEqual(s.Attempts, before) {
		t.Error("the older state was changed")
	}
	ended := must(shown.Finish(job.End{Status: job.Completed, At: 40_000, Last: &job.Attempt{Number: 2, Status: 500}}))
	if len(ended.Attempts) != 2 || ended.Attempts[1].Late {
		t.Errorf("got %+v", ended.Attempts)
	}
}

func TestLateAnswerOfAnUnrecordedAttempt(t *testing.T) {
	s := job.State{Tried: 3, Attempts: []job.Attempt{{Number: 1}, {Number: 3}}}.Late(job.Attempt{Number: 2, Status: 200})
	if want := []job.Attempt{{Number: 1}, {Number: 2, Status: 200, Late: true}, {Number: 3}}; !reflect.DeepEqual(s.Attempts, want) {
		t.Errorf("got %+v", s.Attempts)
	}
}

func TestInterruptCountsTheAttempt(t *testing.T) {
	s := job.State{Tried: 0, Order: 4}.Interrupt(job.Attempt{Number: 1, StartedAt: 9})
	want := job.State{
		Tried: 1, Crashes: 1, Order: 4,
		Attempts: []job.Attempt{{Number: 1, StartedAt: 9, Error: job.CrashedWorker, MaybeExecuted: true}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v", s)
	}
	if s = step(t)(s.Begin(2)); s.Crashes != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestShownAttemptsAreTheFirstAndTheLatest(t *testing.T) {
	var s job.State
	for n := 1; n <= 200; n++ {
		s = step(t)(s.Begin(n))
		s = step(t)(s.Retry(job.Attempt{Number: n}, int64(n)))
	}
	if len(s.Attempts) != job.MaxShownAttempts || s.Attempts[0].Number != 1 || s.Attempts[1].Number != 152 || s.Attempts[49].Number != 200 {
		t.Errorf("%d attempts from %d, %d to %d", len(s.Attempts), s.Attempts[0].Number, s.Attempts[1].Number, s.Attempts[len(s.Attempts)-1].Number)
	}
	if gone := s.Late(job.Attempt{Number: 100, Status: 200}); !reflect.DeepEqual(gone, s) {
		t.Error("an attempt that is no longer shown pushes out one that is")
	}
}

// Whatever happens in whatever order: a state never goes back, an end is the end, and a value that
// somebody still holds does not change under him.
func TestStatesUnderAnyTransitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := job.State{Order: 1}
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			held, copied := s, slices.Clone(s.Attempts)
			n := s.Tried + rapid.IntRange(-2, 2).Draw(t, "attempt")
			next, ok := transition(t, s, n)
			if !reflect.DeepEqual(held.Attempts, copied) {
				t.Fatal("a held state changed")
			}
			checkTransition(t, s, next, ok)
			s = next
		}
	})
}

// transition applies any transition for attempt n.
func transition(t *rapid.T, s job.State, n int) (job.State, bool) {
	switch rapid.IntRange(0, 4).Draw(t, "transition") {
	case 0:
		return s.Begin(n)
	case 1:
		return s.Retry(job.Attempt{Number: n}, 5)
	case 2:
		return s.Finish(job.End{Status: rapid.SampledFrom([]job.Status{job.Completed, job.Failed}).Draw(t, "status"), At: 9, Last: &job.Attempt{Number: n}})
	case 3:
		return s.Late(job.Attempt{Number: n, Status: 200}), true
	default:
		if s.Phase().Ended() {
			return s, true
		}
		return s.Interrupt(job.Attempt{Number: n}), true
	}
}

func checkTransition(t *rapid.T, before, after job.State, ok bool) {
	if !ok {
		refused(t, "transition", before, after, ok)
	}
	if after.Tried < before.Tried || after.Crashes < before.Crashes {
		t.Fatalf("%+v went back to %+v", before, after)
	}
	if before.Phase().Ended() && (after.Phase() != before.Phase() || after.EndedAt != before.EndedAt || after.Result != before.Result) {
		t.Fatalf("%+v did not stay the end but became %+v", before, after)
	}
	if after.Order != 0 && after.DueAt != 0 || after.Phase().Ended() && (after.Order != 0 || after.DueAt != 0) {
		t.Fatalf("in two places: %+v", after)
	}
	ordered := slices.IsSortedFunc(after.Attempts, func(a, b job.Attempt) int { return a.Number - b.Number })
	if !ordered || len(after.Attempts) > job.MaxShownAttempts {
		t.Fatalf("attempts: %+v", after.Attempts)
	}
}

func TestStatuses(t *testing.T) {
	for status, ended := range map[job.Status]bool{job.Queued: false, job.Completed: true, job.Failed: true, "": false, "in_flight": false} {
		if status.Ended() != ended {
			t.Errorf("%q: ended is %v", status, !ended)
		}
	}
}

func TestAttemptsAllowed(t *testing.T) {
	for retries, want := range map[int]int{0: 1, 4: 5, 100: 101, -1: math.MaxInt} {
		j := job.Job{Request: job.Request{MaxRetries: retries}}
		if got := j.AttemptsAllowed(job.State{}); got != want {
			t.Errorf("%d retries allow %d attempts, want %d", retries, got, want)
		}
	}
}

func TestExpired(t *testing.T) {
	j := job.Job{Deadline: 1000}
	for now, want := range map[int64]bool{999: false, 1000: true, 1001: true} {
		if j.Expired(time.UnixMilli(now)) != want {
			t.Errorf("at %d: %v", now, !want)
		}
	}
}

func TestErrorClassesAreTheDocumentedOnes(t *testing.T) {
	want := []job.ErrorClass{
		"connect_refused", "connect_timeout", "dns", "tls", "timeout", "conn_reset", "conn_closed_before_response", "response_truncated",
		"response_header_too_large", "protocol_error", "blocked_target", "execution_deadline_exceeded", "crashed_worker", "internal",
	}
	got := job.ErrorClasses()
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, c := range got {
		if final := c == "blocked_target" || c == "execution_deadline_exceeded"; c.Final() != final {
			t.Errorf("%s: final is %v", c, c.Final())
		}
	}
}

func TestWebhookStates(t *testing.T) {
	want := []job.WebhookState{"none", "pending", "delivered", "rejected", "failed", "skipped"}
	if got := job.WebhookStates(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if (job.Webhook{}).Phase() != job.WebhookNone {
		t.Error("a new job has another webhook state")
	}
	for i, state := range want {
		if settled := i >= 2; state.Settled() != settled || (job.Webhook{State: state}).Phase() != state {
			t.Errorf("%s: settled is %v", state, state.Settled())
		}
	}
}

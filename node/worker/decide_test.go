package worker

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

var policy = Policy{
	BackoffMax: 5 * time.Minute, RetryAfterMax: time.Hour,
	CompletedTTL: 30 * time.Minute, FailedTTL: 2 * time.Hour, ResultMaxBytes: 8,
}

// noon is when the attempts of these tests start; they take 1.5 s.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const took = 1500 * time.Millisecond

// tried is a job whose n-th attempt has just been made, with so many retries and time enough.
func tried(n, maxRetries int) job.Snapshot {
	return job.Snapshot{
		Job:   &job.Job{Deadline: noon.Add(24 * time.Hour).UnixMilli(), Request: job.Request{MaxRetries: maxRetries}},
		State: job.State{Tried: n},
	}
}

func due(s job.Snapshot, at time.Time) job.Snapshot {
	s.Job.Deadline = at.UnixMilli()
	return s
}

// answer is the outcome of an attempt that was answered, as dispatch tells it.
func answer(status int, headers ...string) dispatch.Outcome {
	o := dispatch.Outcome{Status: status, Header: http.Header{}, Body: []byte("answer"), StartedAt: noon, Took: took}
	for i := 0; i < len(headers); i += 2 {
		o.Header.Add(headers[i], headers[i+1])
	}
	o.NoRetry = o.Retryable() && o.Header.Get("X-Aqueduct-No-Retry") == "true"
	return o
}

// broken is the outcome of an attempt that brought no answer.
func broken(class job.ErrorClass, cause egress.Cause) dispatch.Outcome {
	return dispatch.Outcome{
		Class: class, MaybeExecuted: true, StartedAt: noon, Took: took, NoRetry: cause == egress.Unsendable,
		Err: &egress.Error{Cause: cause, Sent: true, Err: errors.New("it broke")},
	}
}

func decide(s job.Snapshot, o dispatch.Outcome, jitter float64) decision {
	hint := pace.ReadSignal(o.Status, o.Retryable(), o.Header, noon.Add(took)).RetryAfter
	return policy.decide(s, o, hint, jitter)
}

func TestDecideWhatAnswersMean(t *testing.T) {
	const none = egress.Refused
	tests := map[string]struct {
		out    dispatch.Outcome
		status job.Status // empty: another attempt
		reason string
	}{
		"200":                          {answer(200), job.Completed, ""},
		"204":                          {answer(204), job.Completed, ""},
		"302 is the result":            {answer(302), job.Completed, ""},
		"400":                          {answer(400), job.Completed, ""},
		"404":                          {answer(404), job.Completed, ""},
		"408":                          {answer(408), "", "upstream returned 408"},
		"410":                          {answer(410), job.Completed, ""},
		"425":                          {answer(425), "", "upstream returned 425"},
		"429":                          {answer(429), "", "upstream returned 429"},
		"500":                          {answer(500), "", "upstream returned 500"},
		"503":                          {answer(503), "", "upstream returned 503"},
		"599":                          {answer(599), "", "upstream returned 599"},
		"503 with no retry":            {answer(503, "X-Aqueduct-No-Retry", "true"), job.Failed, "upstream returned 503"},
		"429 with no retry":            {answer(429, "X-Aqueduct-No-Retry", "true"), job.Failed, "upstream returned 429"},
		"200 with no retry":            {answer(200, "X-Aqueduct-No-Retry", "true"), job.Completed, ""},
		"400 with no retry":            {answer(400, "X-Aqueduct-No-Retry", "true"), job.Completed, ""},
		"503 with no retry: false":     {answer(503, "X-Aqueduct-No-Retry", "false"), "", "upstream returned 503"},
		"refused":                      {broken(job.ConnectRefused, none), "", "it broke"},
		"timeout":                      {broken(job.Timeout, egress.Timeout), "", "it broke"},
		"200 that was cut off":         {dispatch.Outcome{Status: 200, Class: job.ResponseTruncated, Err: errors.New("it broke")}, "", "it broke"},
		"400 that was cut off":         {dispatch.Outcome{Status: 400, Class: job.ResponseTruncated, Err: errors.New("it broke")}, "", "it broke"},
		"blocked target":               {broken(job.BlockedTarget, egress.Blocked), job.Failed, "it broke"},
		"unsendable":                   {broken(job.Internal, egress.Unsendable), job.Failed, "it broke"},
		"cut by the node":              {broken(job.Internal, egress.Canceled), "", "crashed_worker"},
		"fault of ours, worth a retry": {broken(job.Internal, none), "", "it broke"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(tried(1, 4), tt.out, 0)
			if tt.status == "" {
				if d.end != nil || d.reason != tt.reason || d.retryAt.IsZero() {
					t.Errorf("got %+v, want another attempt because %s", d, tt.reason)
				}
				return
			}
			if d.end == nil || d.end.Status != tt.status || d.end.Reason != tt.reason || !d.retryAt.IsZero() {
				t.Fatalf("got %+v, want %s because %q", d, tt.status, tt.reason)
			}
			if hasResult := d.end.Result != nil; hasResult != (tt.out.Class == "") {
				t.Errorf("result: %v", d.end.Result)
			}
		})
	}
	for _, class := range job.ErrorClasses() {
		if d := decide(tried(1, 4), broken(class, none), 0); (d.end != nil) != class.Final() || d.attempt.Error != class {
			t.Errorf("%s: %+v", class, d)
		}
	}
}

func TestDecideRetriesLeft(t *testing.T) {
	tests := []struct {
		tried, maxRetries int
		again             bool
	}{
		{1, 0, false},
		{1, 1, true}, {2, 1, false},
		{4, 4, true}, {5, 4, false}, {6, 4, false},
		{100, 100, true}, {101, 100, false},
		{1, -1, true}, {100_000, -1, true}, {math.MaxInt - 1, -1, true},
	}
	for _, tt := range tests {
		for _, out := range []dispatch.Outcome{answer(503), broken(job.ConnReset, egress.Reset), broken(job.Internal, egress.Canceled)} {
			d := decide(tried(tt.tried, tt.maxRetries), out, 0)
			if (d.end == nil) != tt.again || d.attempt.Number != tt.tried {
				t.Errorf("attempt %d of a job with %d retries: %+v", tt.tried, tt.maxRetries, d)
			}
			if d.end != nil && (d.end.Status != job.Failed || d.end.Reason != d.reason || strings.Contains(d.reason, "window")) {
				t.Errorf("end %+v because %s", d.end, d.reason)
			}
		}
	}
}

func TestDecideWaits(t *testing.T) {
	tests := map[string]struct {
		tried  int
		out    dispatch.Outcome
		jitter float64
		want   time.Duration
	}{
		"first":                    {1, answer(503), 0, time.Second},
		"second":                   {2, answer(503), 0, 2 * time.Second},
		"fifth":                    {5, answer(503), 0, 16 * time.Second},
		"ninth":                    {9, answer(503), 0, 256 * time.Second},
		"tenth is at the bound":    {10, answer(503), 0, 300 * time.Second},
		"jitter":                   {1, answer(503), 0.5, 1050 * time.Millisecond},
		"jitter at the bound":      {20, answer(503), 0.999, 329970 * time.Millisecond},
		"PC-01: attempt 5000":      {5000, answer(503), 0, 300 * time.Second},
		"no answer":                {3, broken(job.Timeout, egress.Timeout), 0, 4 * time.Second},
		"retry after":              {3, answer(503, "Retry-After", "7"), 0.9, 7 * time.Second},
		"retry after on 429":       {1, answer(429, "Retry-After", "120"), 0.9, 2 * time.Minute},
		"retry after 0 is at once": {9, answer(503, "Retry-After", "0"), 0.9, 0},
		"retry after, over the cap of the back-off": {1, answer(503, "Retry-After", "3000"), 0, 50 * time.Minute},
		"retry after, over its own cap":             {1, answer(503, "Retry-After", "3601"), 0.9, time.Hour},
		"RA-01: wraps a Duration":                   {1, answer(429, "Retry-After", "9223372037"), 0.9, time.Hour},
		"RA-01: the largest integer":                {1, answer(429, "Retry-After", "9223372036854775807"), 0.9, time.Hour},
		"RA-01: no integer at all":                  {1, answer(429, "Retry-After", "99999999999999999999"), 0.9, time.Hour},
		"RA-02: not a number of seconds":            {2, answer(429, "Retry-After", "-5"), 0, 2 * time.Second},
		"RA-03: a date":                             {1, answer(503, "Retry-After", httpDate(90*time.Second), "Date", httpDate(0)), 0.9, 90 * time.Second},
		"RA-03: a part of a second":                 {1, answer(503, "Retry-After", httpDate(time.Second)), 0.9, 2 * time.Second},
		"RA-03: a date that has passed":             {5, answer(503, "Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"), 0.9, time.Second},
		"RA-05: a reset on 429":                     {1, answer(429, "RateLimit-Reset", "30"), 0.9, 30 * time.Second},
		"RA-05: a reset on 503":                     {1, answer(503, "RateLimit-Reset", "30"), 0, time.Second},
		"cut by the node":                           {4, broken(job.Internal, egress.Canceled), 0.9, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(tried(tt.tried, -1), tt.out, tt.jitter)
			if d.end != nil || d.attempt.RetryWaitMS != tt.want.Milliseconds() {
				t.Fatalf("got %+v, want a wait of %v", d, tt.want)
			}
			if want := noon.Add(took + tt.want); !d.retryAt.Equal(want) {
				t.Errorf("retry at %v, want %v", d.retryAt, want)
			}
			if raw := tt.out.Header.Get("Retry-After"); raw != "" && d.attempt.RetryAfter != raw {
				t.Errorf("the record has Retry-After %q, want %q", d.attempt.RetryAfter, raw)
			}
		})
	}
}

// httpDate is a time so long after the answer, to the second.
func httpDate(ahead time.Duration) string {
	return noon.Add(took + ahead).Add(500 * time.Millisecond).Format(http.TimeFormat)
}

func TestDecideWindow(t *testing.T) {
	answered := noon.Add(took)
	tests := map[string]struct {
		deadline time.Time
		out      dispatch.Outcome
		reason   string // empty: another attempt
	}{
		"the retry is before the deadline":     {answered.Add(time.Second + time.Millisecond), answer(503), ""},
		"the retry is at the deadline":         {answered.Add(time.Second), answer(503), "retry_window_exhausted: upstream returned 503"},
		"the deadline passed during the call":  {noon.Add(time.Second), answer(503), "retry_window_exhausted: upstream returned 503"},
		"the target wants more time than left": {answered.Add(time.Minute), answer(503, "Retry-After", "60"), "retry_window_exhausted: upstream returned 503"},
		"the cap leaves time":                  {answered.Add(2 * time.Hour), answer(503, "Retry-After", "999999999999"), ""},
		"no answer":                            {answered, broken(job.Timeout, egress.Timeout), "retry_window_exhausted: it broke"},
		"cut by the node":                      {answered.Add(time.Millisecond), broken(job.Internal, egress.Canceled), ""},
		"cut by the node at the deadline":      {answered, broken(job.Internal, egress.Canceled), "retry_window_exhausted: crashed_worker"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(due(tried(1, -1), tt.deadline), tt.out, 0)
			if tt.reason == "" {
				if d.end != nil {
					t.Errorf("ended: %+v", d.end)
				}
				return
			}
			if d.end == nil || d.end.Status != job.Failed || d.end.Reason != tt.reason || d.attempt.RetryWaitMS != 0 {
				t.Errorf("got %+v %+v, want %s", d, d.end, tt.reason)
			}
		})
	}
	late := noon.Add(-time.Hour)
	if d := decide(due(tried(1, 4), late), answer(200), 0); d.end == nil || d.end.Status != job.Completed {
		t.Errorf("an answer after the deadline: %+v", d)
	}
	if d := decide(due(tried(5, 4), late), answer(503), 0); d.end == nil || d.end.Reason != "upstream returned 503" {
		t.Errorf("the last attempt after the deadline: %+v", d.end)
	}
}

func TestDecideRecordsTheAttempt(t *testing.T) {
	out := broken(job.ConnReset, egress.Reset)
	want := job.Attempt{
		Number: 3, StartedAt: noon.UnixMilli(), DurationMS: 1500, Error: job.ConnReset, MaybeExecuted: true, RetryWaitMS: 4000,
	}
	if d := decide(tried(3, 4), out, 0); d.attempt != want {
		t.Errorf("got  %+v\nwant %+v", d.attempt, want)
	}
	want = job.Attempt{Number: 3, StartedAt: noon.UnixMilli(), DurationMS: 1500, Status: 200}
	d := decide(tried(3, 4), answer(200), 0)
	if d.attempt != want || d.end.Last == nil || *d.end.Last != want {
		t.Errorf("got  %+v, %+v\nwant %+v", d.attempt, d.end.Last, want)
	}
	want = job.Attempt{Number: 1, StartedAt: noon.UnixMilli(), DurationMS: 1500, Error: job.CrashedWorker, MaybeExecuted: true}
	if d := decide(tried(1, 4), broken(job.Internal, egress.Canceled), 0); d.attempt != want {
		t.Errorf("got  %+v\nwant %+v", d.attempt, want)
	}
}

func TestDecideResult(t *testing.T) {
	small, large := []byte("12345678"), []byte("1234567é90")
	tests := map[string]struct {
		status int
		body   []byte
		max    int
		want   job.Result
	}{
		"whole":                     {200, small, 8, job.Result{Status: 200, ContentType: "text/plain", Body: small}},
		"cut on a rune":             {200, large, 8, job.Result{Status: 200, ContentType: "text/plain", Body: large[:7], Truncated: true}},
		"only metadata":             {200, small, 0, job.Result{Status: 200, ContentType: "text/plain", Body: small[:0], Truncated: true}},
		"only metadata, no body":    {200, nil, 0, job.Result{Status: 200, ContentType: "text/plain"}},
		"failed, no content type":   {503, small, 8, job.Result{Status: 503, Body: small}},
		"failed, cut":               {503, large, 8, job.Result{Status: 503, Body: large[:7], Truncated: true}},
		"client error is completed": {422, small, 8, job.Result{Status: 422, ContentType: "text/plain", Body: small}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := answer(tt.status, "Content-Type", "text/plain")
			out.Body = tt.body
			p := policy
			p.ResultMaxBytes = tt.max
			d := p.decide(tried(1, 0), out, pace.RetryAfter{}, 0)
			if !reflect.DeepEqual(*d.end.Result, tt.want) {
				t.Errorf("got  %+v\nwant %+v", *d.end.Result, tt.want)
			}
			if cut := d.payload != nil; cut != tt.want.Truncated || cut && !bytes.Equal(d.payload, tt.body) {
				t.Errorf("payload %q", d.payload)
			}
			keep := p.CompletedTTL
			if d.end.Status == job.Failed {
				keep = p.FailedTTL
			}
			if d.end.Keep != keep.Milliseconds() || d.end.At != noon.Add(took).UnixMilli() {
				t.Errorf("end %+v", d.end)
			}
		})
	}
	out := answer(200)
	out.Truncated = true
	if d := decide(tried(1, 0), out, 0); !d.end.Result.Partial || d.end.Result.Truncated {
		t.Errorf("an answer that was not read whole: %+v", d.end.Result)
	}
}

// Whatever comes, a job ends or goes on, never both, and never beyond its bounds.
func TestDecideAlwaysDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out := dispatch.Outcome{
			StartedAt: noon, Took: time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "took")),
			Status: rapid.IntRange(0, 999).Draw(t, "status"), NoRetry: rapid.Bool().Draw(t, "no retry"),
			Class: rapid.SampledFrom(append(job.ErrorClasses(), "")).Draw(t, "class"), Body: []byte("body"),
		}
		if out.Class != "" {
			out.Err = rapid.SampledFrom([]error{context.Canceled, &egress.Error{Cause: egress.Canceled, Err: context.Canceled}}).Draw(t, "error")
		}
		hint := pace.RetryAfter{OK: rapid.Bool().Draw(t, "hint"), Wait: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "wait"))}
		s := tried(rapid.IntRange(1, 200).Draw(t, "tried"), rapid.IntRange(-1, 100).Draw(t, "retries"))
		d := policy.decide(s, out, hint, rapid.Float64Range(0, 1).Draw(t, "jitter"))

		if d.end == nil {
			wait := d.retryAt.Sub(noon.Add(out.Took))
			if wait < 0 || wait > policy.RetryAfterMax || s.Job.Expired(d.retryAt) || d.reason == "" || s.State.Tried >= s.Job.AttemptsAllowed(s.State) {
				t.Fatalf("retry after %v because %q: %+v", wait, d.reason, d)
			}
			if _, ok := s.State.Retry(d.attempt, d.retryAt.UnixMilli()); !ok {
				t.Fatalf("retry refused: %+v", d)
			}
			return
		}
		next, ok := s.State.Finish(*d.end)
		if !ok || !next.Phase().Ended() || (next.Phase() == job.Failed) != (next.Reason != "") || (next.Result == nil) != (out.Class != "") {
			t.Fatalf("end %+v gives %+v", d.end, next)
		}
	})
}

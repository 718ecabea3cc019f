package results_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

// TestKeyBecomesOneJob: from the claim to the end of the job, another node hears of the first one.
func TestKeyBecomesOneJob(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, second := a.job("u", "k"), b.job("u", "k")
	a.claims(first)
	a.Stored(first)
	if h := b.meets(second, first, job.Queued); h.ResultKey != "" {
		t.Errorf("a job that has not ended has a result at %s", h.ResultKey)
	}
	if h := b.Find(t.Context(), second.Request.Key()); h == nil || h.ID != first.ID {
		t.Errorf("found %+v", h)
	}
	a.Ended(ended(first, "done"), nil)
	stands(t, s, entryKey(first), map[string]any{"status": "completed"})
	if h := b.meets(second, first, job.Completed); h.ResultKey != resultKey(first) {
		t.Errorf("the result is at %q", h.ResultKey)
	}
	b.claims(b.job("other", "k"))
	if a.counted("aquifer_remote_claims_total", "claimed") != 1 || b.counted("aquifer_remote_claims_total", "duplicate") != 2 {
		t.Error("claims are not counted")
	}
}

// TestMismatch: a node can tell that a key stood for something else at another one.
func TestMismatch(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, same, other := a.job("u", "k"), b.job("u", "k"), b.job("u", "k")
	other.Request.Body = []byte("something else")
	a.claims(first)
	a.Stored(first)
	meets := func(status job.Status) {
		h := b.meets(same, first, status)
		if h.Mismatch(same.Request.Payload()) || !h.Mismatch(other.Request.Payload()) {
			t.Errorf("%s: the payloads are told apart wrongly", status)
		}
	}
	meets(job.Queued)
	a.Ended(ended(first, "done"), nil)
	stands(t, s, entryKey(first), map[string]any{"status": "completed"})
	meets(job.Completed)
	s.Do("SET", entryKey(first), `{"job_id":"`+first.ID.String()+`"}`)
	if h := b.meets(same, first, job.Queued); h.Mismatch(other.Request.Payload()) {
		t.Error("an entry that tells no payload has another one")
	}
}

// TestClaimTellsNobody: before the job is stored there is none, and whoever asks is told to come again.
func TestClaimTellsNobody(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, second := a.job("u", "k"), b.job("u", "k")
	a.claims(first)
	if h := b.Find(t.Context(), second.Request.Key()); h != nil {
		t.Errorf("found %+v", h)
	}
	_, err := b.Claim(t.Context(), second.Request.Key(), second.ID, 0)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Unavailable || f.RetryAfter == 0 {
		t.Errorf("got %v", err)
	}
	if left, _ := s.Do("PTTL", entryKey(first)).AsInt64(); left <= 0 || left > 30_000 {
		t.Errorf("a claim whose node dies lives %d ms", left)
	}
	tried := a.job("u", "tried")
	if h, err := a.Claim(t.Context(), tried.Request.Key(), tried.ID, 10*time.Minute); h != nil || err != nil {
		t.Errorf("the key is held: %+v, %v", h, err)
	}
	if left, _ := s.Do("PTTL", entryKey(tried)).AsInt64(); left <= 600_000 || left > 630_000 {
		t.Errorf("a claim whose job is tried for 10 min lives %d ms", left)
	}
	if got := stands(t, s, entryKey(first), nil); got["job_id"] != nil {
		t.Errorf("a node that knows no claims takes this for a job: %v", got)
	}
	// One who waits gets the job when it is stored.
	waits := make(chan *results.Holder)
	go func() {
		for {
			if h, err := b.Claim(context.Background(), second.Request.Key(), second.ID, 0); err == nil {
				waits <- h
				return
			}
		}
	}()
	a.Stored(first)
	if h := <-waits; h == nil || h.ID != first.ID {
		t.Errorf("got %+v", h)
	}
}

func TestAbandon(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, second := a.job("u", "k"), b.job("u", "k")
	a.claims(first)
	b.Abandon(t.Context(), second.Request.Key(), second.ID) // who has not claimed it
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	a.Abandon(gone, first.Request.Key(), first.ID)
	b.claims(second)
	b.Stored(second)
	stands(t, s, entryKey(second), map[string]any{"job_id": second.ID.String()})
	a.Abandon(t.Context(), first.Request.Key(), first.ID) // another job has it
	a.meets(first, second, job.Queued)
	b.Abandon(t.Context(), second.Request.Key(), second.ID)
	a.claims(first)
	a.Ended(ended(first, "done"), nil)
	stands(t, s, entryKey(first), map[string]any{"status": "completed"})
	a.Abandon(t.Context(), first.Request.Key(), first.ID) // what it answered is true for good
	b.meets(second, first, job.Completed)
}

// The key of a job that has left no trace is free, whatever Valkey was told of it; that of another job stays.
func TestVoid(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	claimed, stored, other := a.job("u", "claimed"), a.job("u", "stored"), b.job("u", "other")
	a.claims(claimed)
	a.claims(stored)
	a.Stored(stored)
	b.claims(other)
	b.Stored(other)
	for _, j := range []*job.Job{claimed, stored, other} {
		valkeytest.Until(t, func() error {
			if s.Get(entryKey(j)) == "" {
				return errors.New("nothing is told")
			}
			return nil
		})
	}
	stands(t, s, entryKey(other), map[string]any{"job_id": other.ID.String()})
	a.Void(claimed)
	a.Void(stored)
	a.Void(a.job("u", "other"))
	mark := a.job("u", "mark")
	a.Stored(mark)
	stands(t, s, entryKey(mark), map[string]any{"job_id": mark.ID.String()})
	b.claims(b.job("u", "claimed"))
	b.claims(b.job("u", "stored"))
	a.meets(a.job("u", "other"), other, job.Queued)
}

// TestClaimsOfOneNode: its store decides among them.
func TestClaimsOfOneNode(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	loser, winner := a.job("u", "k"), a.job("u", "k")
	a.claims(loser)
	a.claims(winner)
	a.Stored(winner)
	stands(t, s, entryKey(winner), map[string]any{"job_id": winner.ID.String()})
	a.Abandon(t.Context(), loser.Request.Key(), loser.ID)
	b.meets(b.job("u", "k"), winner, job.Queued)
}

// TestLateStored: a node that stored its job without an answer of Valkey does not take the key from one that
// has claimed it.
func TestLateStored(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	alone, second, mark := a.job("u", "k"), b.job("u", "k"), a.job("u", "mark")
	b.claims(second)
	a.Stored(alone)
	a.Stored(mark)
	stands(t, s, entryKey(mark), map[string]any{"job_id": mark.ID.String()})
	stands(t, s, entryKey(second), map[string]any{"claim": second.ID.String()})
	b.Stored(second)
	stands(t, s, entryKey(second), map[string]any{"job_id": second.ID.String()})
}

// TestManyClaimsAtOnce: of many nodes that get one key at once, one has the job.
func TestManyClaimsAtOnce(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	var accepted, duplicates atomic.Int32
	var all sync.WaitGroup
	for i := range 10 {
		n := start(t, config(s.URL(), fmt.Sprint("n", i)))
		j := n.job("u", "k")
		all.Go(func() {
			for {
				h, err := n.Claim(context.Background(), j.Request.Key(), j.ID, 0)
				switch {
				case err != nil:
					continue
				case h != nil:
					duplicates.Add(1)
				default:
					accepted.Add(1)
					n.Stored(j)
				}
				return
			}
		})
	}
	all.Wait()
	if accepted.Load() != 1 || duplicates.Load() != 9 {
		t.Errorf("%d accepted, %d duplicates", accepted.Load(), duplicates.Load())
	}
}

// TestIdentityIsExact: two users whose keys look alike on the wire do not get each other's jobs.
func TestIdentityIsExact(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, second := a.job("a", "b:c"), b.job("a:b", "c")
	if entryKey(first) != entryKey(second) {
		t.Fatal("they do not look alike")
	}
	a.claims(first)
	b.claims(second) // also of one that is only claimed
	a.Stored(first)
	a.Ended(ended(first, "secret"), nil)
	stands(t, s, entryKey(first), map[string]any{"status": "completed"})
	b.claims(second)
	if h := b.Find(t.Context(), second.Request.Key()); h != nil {
		t.Errorf("found %+v", h)
	}
	_, err := results.Reader{Region: b.Region}.Result(t.Context(), second.Request.Key())
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestSharedScope(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, second := a.job("u", "k"), b.job("v", "k")
	first.Request.Scope, second.Request.Scope = job.ScopeShared, job.ScopeShared
	a.claims(first)
	a.Ended(ended(first, "for all"), nil)
	stands(t, s, entryKey(first), map[string]any{"status": "completed", "user": nil})
	b.meets(second, first, job.Completed)
	b.claims(b.job("v", "k"))
}

// TestForeignEntries: entries of nodes that write less, or of who knows whom.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	other := job.ID{1}
	for text, hit := range map[string]bool{
		`{"job_id":"` + other.String() + `","status":"completed","recorded_at":1,"source":"aquifer","result_key":"aqueduct:result:x"}`: true,
		`{"job_id":"` + other.String() + `"}`:                true,
		`{"job_id":"","status":"completed"}`:                 false,
		`{"job_id":"short"}`:                                 false,
		`{"job_id":7}`:                                       false,
		`{"claim":"short"}`:                                  false,
		`{"job_id":"` + other.String() + `","user":"other"}`: false,
		`[]`:   false,
		`null`: false,
		`x`:    false,
	} {
		j := n.job("u", text)
		s.Do("SET", entryKey(j), text)
		h, err := n.Claim(t.Context(), j.Request.Key(), j.ID, 0)
		if err != nil || (h != nil) != hit || hit && h.ID != other {
			t.Errorf("%s: got %+v, %v", text, h, err)
		}
	}
	j := n.job("u", "a list")
	s.Do("LPUSH", entryKey(j), "x")
	n.claims(j)
	n.Stored(j)
	n.Ended(ended(j, "x"), nil)
	valkeytest.Until(t, func() error {
		if got := n.counted("aquifer_remote_records_total", "written"); got != 2 {
			return fmt.Errorf("%v are written", got)
		}
		return nil
	})
	stands(t, s, entryKey(j), map[string]any{"status": "completed"})
}

// TestLongJobs: a key is held as long as its job may run.
func TestLongJobs(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	for name, tt := range map[string]struct{ deadline, least time.Duration }{
		"a day":    {24 * time.Hour, 25 * time.Hour},
		"past":     {-time.Hour, time.Hour},
		"for ever": {1 << 62, 300 * 24 * time.Hour},
	} {
		j := n.job("u", name)
		j.Deadline = time.Now().Add(tt.deadline).UnixMilli()
		n.claims(j)
		n.Stored(j)
		stands(t, s, entryKey(j), map[string]any{"job_id": j.ID.String()})
		if left, _ := s.Do("PTTL", entryKey(j)).AsInt64(); left < tt.least.Milliseconds() {
			t.Errorf("%s: the key is held for %d ms", name, left)
		}
	}
}

func TestNoRegion(t *testing.T) {
	var r *results.Region
	j := (&node{}).job("u", "k")
	if h, err := r.Claim(t.Context(), j.Request.Key(), j.ID, 0); h != nil || err != nil {
		t.Errorf("got %+v, %v", h, err)
	}
	if h := r.Find(t.Context(), j.Request.Key()); h != nil {
		t.Errorf("found %+v", h)
	}
	r.Stored(j)
	r.Ended(ended(j, "x"), nil)
	r.Abandon(t.Context(), j.Request.Key(), j.ID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
	r.Close()
}

// TestOnlyResults: without claims, a key is nothing that anybody else knows.
func TestOnlyResults(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	c := config(s.URL(), "a")
	c.Claims = false
	a := start(t, c)
	j := a.job("u", "k")
	a.claims(j)
	a.Stored(j)
	a.Ended(ended(j, "done"), nil)
	stands(t, s, resultKey(j), map[string]any{"body": "done"})
	if keys, _ := s.Do("KEYS", "*").AsStrSlice(); len(keys) != 1 {
		t.Errorf("keys %q", keys)
	}
}

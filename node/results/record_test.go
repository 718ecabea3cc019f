package results_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

func TestWhatStandsThere(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	j := n.job("u", "k")
	n.claims(j)
	n.Stored(j)
	n.Ended(ended(j, "<done>"), nil)
	const user = "0bfe935e70c321c7ca3afc75ce0d0ca2f98b5422e008bb31c00c6d7f1f1c0ad6" // sha256("u")
	stands(t, s, entryKey(j), map[string]any{
		"job_id": j.ID.String(), "status": "completed", "source": "aquifer", "result_key": resultKey(j), "user": user, "claim": nil,
	})
	got := stands(t, s, resultKey(j), map[string]any{
		"job_id": j.ID.String(), "status": "completed", "response_status": 200.0, "content_type": "text/plain", "body": "<done>",
		"source": "aquifer", "user": user, "body_truncated": nil, "body_encoding": nil, "reason": nil,
	})
	if got["recorded_at"] == nil || strings.Contains(s.Get(resultKey(j)), "<done>") {
		t.Errorf("stored as %s", s.Get(resultKey(j)))
	}
	for _, key := range []string{entryKey(j), resultKey(j)} {
		if left, _ := s.Do("TTL", key).AsInt64(); left < 7100 || left > 7200 {
			t.Errorf("%s is kept for %d s", key, left)
		}
	}
}

func TestLastWriteWins(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first, second := a.job("u", "k"), b.job("u", "k")
	a.Ended(ended(first, "first"), nil)
	stands(t, s, resultKey(first), map[string]any{"body": "first"})
	b.Ended(ended(second, "second"), nil)
	stands(t, s, entryKey(first), map[string]any{"job_id": second.ID.String()})
	stands(t, s, resultKey(first), map[string]any{"job_id": second.ID.String(), "body": "second"})
	// But a job that only begins does not take the key from one that has it.
	late := a.job("u", "k")
	a.Stored(late)
	mark := a.job("u", "mark")
	a.Stored(mark)
	stands(t, s, entryKey(mark), map[string]any{"job_id": mark.ID.String()})
	stands(t, s, entryKey(first), map[string]any{"job_id": second.ID.String(), "status": "completed"})
}

func TestRerunsHaveNoKey(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	j := n.job("u", "k")
	j.RedriveOf = job.ID{1}
	n.Stored(j)
	n.Ended(ended(j, "x"), nil)
	mark := n.job("u", "mark")
	n.Stored(mark)
	stands(t, s, entryKey(mark), nil)
	if got := s.Get(entryKey(j)) + s.Get(resultKey(j)); got != "" {
		t.Errorf("got %s", got)
	}
}

// TestOutage: callers are not held up, and when Valkey is back it hears of all that ended meanwhile.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(*valkeytest.Server) }{
		"killed and back without its data": {(*valkeytest.Server).Kill, (*valkeytest.Server).Restart},
		"paused":                           {(*valkeytest.Server).Pause, (*valkeytest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valkeytest.Start(t)
			c := config(s.URL(), "a")
			c.Timeout = 25 * time.Millisecond
			n := start(t, c)
			outage.begin(s)
			var jobs []*job.Job
			for range 200 {
				j := n.job("u", strings.Repeat("k", len(jobs)+1))
				jobs = append(jobs, j)
				n.claims(j)
				n.Stored(j)
				n.Ended(ended(j, "done"), nil)
				n.Abandon(t.Context(), j.Request.Key(), job.ID{9})
			}
			if got := n.counted("aquifer_remote_claims_total", "failed"); got != 200 {
				t.Errorf("%v claims failed", got)
			}
			outage.end(s)
			for _, j := range jobs {
				stands(t, s, entryKey(j), map[string]any{"status": "completed"})
				stands(t, s, resultKey(j), map[string]any{"body": "done"})
			}
		})
	}
}

// TestIllServers: whatever Valkey says, no caller waits for long, and jobs are accepted.
func TestIllServers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"readonly": valkeytest.Error("READONLY You can't write against a read only replica."), "loading": valkeytest.Error("LOADING"),
		"full": valkeytest.Error("OOM command not allowed"), "cut": valkeytest.Cut, "hang": valkeytest.Hang, "number": ":1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valkeytest.NewStub(t, func([]string) string { return answer })
			c := config(s.URL(), "a")
			c.Timeout = 25 * time.Millisecond
			n := start(t, c)
			for range 10 {
				j := n.job("u", "k")
				n.claims(j)
				n.Stored(j)
				n.Abandon(t.Context(), j.Request.Key(), j.ID)
				if h := n.Find(t.Context(), j.Request.Key()); h != nil {
					t.Errorf("found %+v", h)
				}
			}
		})
	}
}

func TestFlush(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	first := a.job("u", "k")
	a.claims(first)
	a.Stored(first)
	stands(t, s, entryKey(first), map[string]any{"status": "queued"})
	s.Do("FLUSHALL")
	// The key is known only where its job is, until that ends.
	second := b.job("u", "k")
	b.claims(second)
	b.Abandon(t.Context(), second.Request.Key(), second.ID)
	a.Ended(ended(first, "done"), nil)
	stands(t, s, entryKey(first), map[string]any{"status": "completed"})
	b.meets(second, first, job.Completed)
}

// TestValkeyCluster: keys of one batch are at many places.
func TestValkeyCluster(t *testing.T) {
	t.Parallel()
	s := valkeytest.StartCluster(t)
	a, b := start(t, config(s.URL(), "a")), start(t, config(s.URL(), "b"))
	var jobs []*job.Job
	for range 100 {
		j := a.job("u", strings.Repeat("k", len(jobs)+1))
		jobs = append(jobs, j)
		a.claims(j)
		a.Stored(j)
		a.Ended(ended(j, "done"), nil)
	}
	for _, j := range jobs {
		stands(t, s, entryKey(j), map[string]any{"status": "completed"})
		b.meets(b.job("u", j.Request.KeyName), j, job.Completed)
		if _, err := (results.Reader{Region: b.Region}).Result(t.Context(), j.Request.Key()); err != nil {
			t.Error(err)
		}
	}
}

// TestStop: what waits is written before the end, or counted as lost.
func TestStop(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	var jobs []*job.Job
	for range 250 {
		j := n.job("u", strings.Repeat("k", len(jobs)+1))
		jobs = append(jobs, j)
		n.Ended(ended(j, "done"), nil)
	}
	n.stop()
	for _, j := range jobs {
		if s.Get(entryKey(j)) == "" || s.Get(resultKey(j)) == "" {
			t.Fatal("a job's end is lost")
		}
	}
	down := start(t, config(s.URL(), "b"))
	s.Kill()
	down.Ended(ended(down.job("u", "k"), "done"), nil)
	down.stop()
	if got := down.counted("aquifer_remote_records_total", "dropped"); got != 1 {
		t.Errorf("%v records were dropped", got)
	}
}

// TestTooMuchWaits: a node whose Valkey is away for long does not fill its memory.
func TestTooMuchWaits(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Kill()
	c := config(s.URL(), "a")
	c.MaxBytes = 1 << 20
	n := start(t, c)
	body := strings.Repeat("x", 1<<20)
	for range 40 {
		n.Ended(ended(n.job("u", "k"), body), nil)
	}
	if got := n.counted("aquifer_remote_records_total", "dropped"); got < 8 {
		t.Errorf("%v records were dropped", got)
	}
	last := n.job("u", "last")
	s.Restart()
	valkeytest.Until(t, func() error {
		n.Ended(ended(last, "done"), nil)
		if s.Get(resultKey(last)) == "" {
			return errors.New("it is not there")
		}
		return nil
	})
}

func TestBadTarget(t *testing.T) {
	_, err := results.New(results.Config{Target: link.Target{URL: "http://u:secret@host"}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestLittleRights: a user of Valkey with no more rights than the documentation asks for.
func TestLittleRights(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Do("ACL", "SETUSER", "a", "on", ">secret", "~aqueduct:*", "+get", "+set", "+del", "+eval", "+evalsha", "+@connection")
	a := start(t, config("valkey://a:secret@"+s.Addr, "a"))
	abandoned, j := a.job("u", "abandoned"), a.job("u", "k")
	a.claims(abandoned)
	a.Abandon(t.Context(), abandoned.Request.Key(), abandoned.ID)
	a.claims(j)
	a.Stored(j)
	a.Ended(ended(j, "done"), nil)
	stands(t, s, entryKey(j), map[string]any{"status": "completed"})
	if got := s.Get(entryKey(abandoned)); got != "" || a.counted("aquifer_remote_claims_total", "failed") != 0 {
		t.Errorf("got %s", got)
	}
}

package drain_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// keys is what a region knows, and can forget to answer.
type keys struct {
	mu     sync.Mutex // guards what follows
	values map[string]string
	calls  int
	err    error
}

func (k *keys) SetAll(_ context.Context, values map[string]string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.err != nil {
		return k.err
	}
	if k.values == nil {
		k.values = make(map[string]string)
	}
	maps.Copy(k.values, values)
	return nil
}

func (k *keys) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func toRegion(k *keys, results drain.Results) func(*drain.Config) {
	return func(c *drain.Config) { c.Sink, c.WebhookURL, c.Keys, c.Results = "valkey", "", k, results }
}

// insert adds a job and ends it.
func (s *stage) insert(id byte, r job.Request, rerunOf job.ID) *job.Job {
	s.Helper()
	r.URL, r.WebhookURL = "http://target.test", "http://receiver.test"
	j := &job.Job{ID: job.ID{0xff, id}, Request: r, RedriveOf: rerunOf}
	if _, err := s.store.Insert(s.Context(), j, store.Default); err != nil {
		s.Fatal(err)
	}
	s.finish(j)
	s.settle(j)
	return j
}

// The region is told what each key became. A job that ran another one again is none of a key's, and a shared
// key is no user's own.
func TestRegion(t *testing.T) {
	for name, results := range map[string]drain.Results{
		"without results": nil,
		"with results": func(_ context.Context, ids []job.ID) (map[job.ID]string, error) {
			names := make(map[job.ID]string)
			for _, id := range ids {
				names[id] = "result-" + id.String()
			}
			return names, nil
		},
		"with results that the node has lost": func(context.Context, []job.ID) (map[job.ID]string, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			k := new(keys)
			play(t, func(s *stage) {
				own := s.insert(1, job.Request{UserID: "ada", KeyName: "k"}, job.ID{})
				shared := s.insert(2, job.Request{UserID: "ada", KeyName: "k", Scope: job.ScopeShared}, job.ID{})
				rerun := s.insert(3, own.Request, own.ID)
				s.at(20 * second)
				s.is(drain.Unassigned)
				s.has(false, own, shared, rerun)
				value := func(j *job.Job, user string) string {
					text := fmt.Sprintf(`{"job_id":"%s","status":"completed","recorded_at":%d,"source":"aquifer"`, j.ID, s.began.UnixMilli())
					if name == "with results" {
						text += fmt.Sprintf(`,"result_key":"result-%s"`, j.ID)
					}
					return text + fmt.Sprintf(`,"payload":"%x"`, j.Request.Payload()) + user + "}"
				}
				want := map[string]string{
					own.Request.Key().WireHash():    value(own, fmt.Sprintf(`,"user":"%x"`, sha256.Sum256([]byte("ada")))),
					shared.Request.Key().WireHash(): value(shared, ""),
				}
				if !reflect.DeepEqual(k.values, want) {
					s.Errorf("set %v\nwant %v", k.values, want)
				}
				rerun = s.insert(4, own.Request, own.ID)
				s.at(60 * second)
				s.has(false, rerun)
				if k.calls != 1 {
					s.Errorf("%d calls", k.calls)
				}
			}, toRegion(k, results))
		})
	}
}

// A region that does not take all is told again, and nothing is cleared before.
func TestRegionFails(t *testing.T) {
	k := &keys{err: errors.New("no valkey")}
	play(t, func(s *stage) {
		j := s.done()
		s.at(8 * time.Minute)
		s.is(drain.Draining)
		s.has(true, j)
		k.fail(nil)
		s.at(9 * time.Minute)
		s.is(drain.Unassigned)
		s.has(false, j)
	}, toRegion(k, nil))
}

// Before the region has what a job answered, its key names no result, and the node forgets nothing.
func TestResultsComeBeforeTheirKeys(t *testing.T) {
	k := new(keys)
	var errResults atomic.Pointer[error]
	fails := errors.New("no valkey")
	errResults.Store(&fails)
	play(t, func(s *stage) {
		j := s.done()
		s.at(time.Minute)
		s.is(drain.Draining)
		s.has(true, j)
		if k.calls != 0 {
			s.Errorf("keys were set in %d calls", k.calls)
		}
		errResults.Store(new(error))
		s.at(2 * time.Minute)
		s.is(drain.Unassigned)
		s.has(false, j)
	}, toRegion(k, func(_ context.Context, ids []job.ID) (map[job.ID]string, error) {
		return map[job.ID]string{ids[0]: "name"}, *errResults.Load()
	}))
}

package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// endings are the ends that were told, in order.
type endings struct {
	mu   sync.Mutex
	told []string
}

func (e *endings) note(s job.Snapshot, payload []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	body := ""
	if s.State.Result != nil {
		body = string(s.State.Result.Body)
	}
	if payload != nil {
		body = string(payload)
	}
	e.told = append(e.told, fmt.Sprint(s.Job.Request.KeyName, " ", s.State.Phase(), " ", body))
}

func (e *endings) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.told)
}

// Each end is told of once, with the whole body, and not before it is recorded.
func TestEndsAreTold(t *testing.T) {
	long := strings.Repeat("long ", 10)
	for name, tt := range map[string]struct {
		body  string
		edit  []func(*job.Request)
		fault storetest.Fault
		want  string
	}{
		"completed":                   {"short", nil, nil, "k completed short"},
		"with a long body":            {long, nil, nil, "k completed " + long},
		"too late":                    {"", []func(*job.Request){before(time.UnixMilli(1))}, nil, "k failed "},
		"recorded at the third try":   {"short", nil, storetest.Failing("Finish", 2, false), "k completed short"},
		"recorded although it failed": {"short", nil, storetest.Failing("Finish", 1, true), "k completed short"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var ends endings
				r := newRig(t, options{ended: ends.note})
				if tt.body != "" {
					o := answer(200)
					o.Body = []byte(tt.body)
					r.target.script = answers(o)
				}
				if tt.fault != nil {
					r.disk.SetFault(tt.fault)
				}
				r.submit(request("u", "k", tt.edit...))
				if got := ends.list(); len(got) != 0 {
					t.Errorf("told %q before the end", got)
				}
				r.start()
				defer r.stop()
				r.settled()
				if got := ends.list(); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("told %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// What is not recorded has not ended.
func TestEndsThatAreNotRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ends endings
		r := newRig(t, options{ended: ends.note})
		r.disk.SetFault(storetest.Failing("Finish", 1000, false))
		r.submit(request("u", "k"))
		r.start()
		time.Sleep(time.Minute)
		r.stop()
		if got := ends.list(); len(got) != 0 {
			t.Errorf("told %q", got)
		}
	})
}

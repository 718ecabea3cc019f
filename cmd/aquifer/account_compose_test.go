//go:build compose

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// entry is what became of one job. Times are Unix ms.
type entry struct {
	sent, accepted int64 // first time, and when a node said so; 0: none did
	id             string
	failures       int // of the client's requests
	calls, hooks   []arrival
}

// account is the outcome of a run.
type account struct {
	Profile           string         `json:"profile"`
	Jobs              int            `json:"jobs"`
	Accepted          int            `json:"accepted"`
	Lost              int            `json:"lost"`   // accepted, and not called or not delivered
	Untold            int            `json:"untold"` // accepted, and no node tells that they are completed
	Kills             int            `json:"kills"`
	CallsAfterKill    int            `json:"calls_repeated_after_kill"`
	CallsRepeated     int            `json:"calls_repeated"`
	WebhooksAfterKill int            `json:"webhooks_repeated_after_kill"`
	WebhooksRepeated  int            `json:"webhooks_repeated"`
	FailedRequests    int            `json:"failed_requests"`
	LongestMS         int64          `json:"longest_until_accepted_ms"`
	Calls             map[string]int `json:"calls"` // by node
}

// load submits jobs at a steady rate, in turn through all nodes, until ctx ends; each until a node takes it.
func (f *fleet) load(ctx context.Context, perSecond int) []*entry {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var jobs []*entry
	var clients sync.WaitGroup
	for {
		select {
		case <-ctx.Done():
			clients.Wait()
			return jobs
		case <-tick.C:
		}
		e, n := &entry{sent: time.Now().UnixMilli()}, len(jobs)
		jobs = append(jobs, e)
		clients.Go(func() { f.submit(e, n) })
	}
}

// submit asks one node after another. A whole fleet is never away for as long as this goes on.
func (f *fleet) submit(e *entry, n int) {
	sub := client.Submission{
		UserID: fmt.Sprint("user-", n%30), IdempotentKey: fmt.Sprint("job-", n), Method: http.MethodPost, Body: []byte("hello"),
		URL: fmt.Sprint("http://target:9000/", n), WebhookURL: fmt.Sprint("http://receiver:9000/", n),
	}
	late := time.Now().Add(30 * time.Second)
	for try := n; time.Now().Before(late); try++ {
		ctx, cancel := context.WithTimeout(f.t.Context(), 15*time.Second)
		got, err := f.nodes[try%len(f.nodes)].Submit(ctx, sub)
		cancel()
		if err == nil {
			e.id, e.accepted = got.JobID, time.Now().UnixMilli()
			return
		}
		e.failures++
		_ = pause(f.t.Context(), 50*time.Millisecond)
	}
}

// settle waits until all that was accepted is delivered.
func (f *fleet) settle(jobs []*entry) {
	f.t.Helper()
	missing := func() (n int) {
		for _, e := range jobs {
			if e.accepted != 0 && len(e.hooks) == 0 {
				n++
			}
		}
		return n
	}
	eventually(f.t, 40*time.Second, func() string { return fmt.Sprintf("%d of %d jobs are not delivered", missing(), len(jobs)) }, func() bool {
		f.collect("target", jobs, func(e *entry) *[]arrival { return &e.calls })
		f.collect("receiver", jobs, func(e *entry) *[]arrival { return &e.hooks })
		if missing() == 0 {
			return true
		}
		_ = pause(f.t.Context(), time.Second) // between two readings of all that came
		return false
	})
}

// collect notes with the jobs what came to a sink until now.
func (f *fleet) collect(service string, jobs []*entry, came func(*entry) *[]arrival) {
	f.t.Helper()
	for _, e := range jobs {
		*came(e) = nil
	}
	for line := range strings.Lines(f.docker("logs", service)) {
		var a arrival
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			f.t.Fatalf("%s wrote %q: %v", service, line, err)
		}
		n, err := strconv.Atoi(strings.TrimPrefix(a.Path, "/"))
		if err != nil || n >= len(jobs) {
			f.t.Fatalf("%s got a request of nobody: %+v", service, a)
		}
		list := came(jobs[n])
		*list = append(*list, a)
	}
}

// account counts, and tells of each job that is not as it should be.
func (f *fleet) account(jobs []*entry) account {
	f.t.Helper()
	a := account{Profile: f.profile, Jobs: len(jobs), Kills: len(f.kills), Calls: map[string]int{}}
	for n, e := range jobs {
		a.FailedRequests += e.failures
		if e.accepted == 0 {
			f.t.Errorf("no node took job-%d: %+v", n, *e)
			continue
		}
		a.Accepted++
		a.LongestMS = max(a.LongestMS, e.accepted-e.sent)
		for _, c := range e.calls {
			a.Calls[c.Node]++
		}
		if len(e.calls) == 0 || len(e.hooks) == 0 {
			a.Lost++
			f.t.Errorf("job-%d is lost: %+v", n, *e)
		}
		if j, err := f.nodes[n%len(f.nodes)].Get(f.t.Context(), e.id); err != nil || j.Status != job.Completed {
			a.Untold++
			f.t.Errorf("job-%d, %s, is %q at %s: %v", n, e.id, j.Status, f.service(n%len(f.nodes)), err)
		}
		f.repeats(e, e.calls, &a.CallsAfterKill, &a.CallsRepeated)
		f.repeats(e, e.hooks, &a.WebhooksAfterKill, &a.WebhooksRepeated)
	}
	return a
}

// repeats counts what came more than once, apart if the death of a node explains it.
func (f *fleet) repeats(e *entry, came []arrival, afterKill, other *int) {
	f.t.Helper()
	for i := 1; i < len(came); i++ {
		if f.explained(e, came[i-1], came[i]) {
			*afterKill++
			continue
		}
		*other++
		f.t.Errorf("nobody died between %+v and %+v, and every node that was asked to take the job answered: %+v", came[i-1], came[i], *e)
	}
}

// explained reports whether a node died that had sent the first and not yet noted the answer, or that may have
// taken the job and not yet said so.
func (f *fleet) explained(e *entry, first, again arrival) bool {
	for _, k := range f.kills {
		if k.node == first.Node && k.to >= first.At && k.from <= again.At || k.to >= e.sent && k.from <= e.accepted {
			return true
		}
	}
	return false
}

// TestComposeFleet keeps account of every job that a fleet takes while its parts are killed.
func TestComposeFleet(t *testing.T) {
	for _, profile := range []string{"gossip", "valkey"} {
		t.Run(profile, func(t *testing.T) {
			f := raise(t, profile)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			loaded := make(chan []*entry, 1)
			go func() { loaded <- f.load(ctx, 40) }()
			f.trouble()
			stop()
			jobs := <-loaded
			f.settle(jobs)
			a := f.account(jobs)
			line, err := json.Marshal(a)
			if err != nil || len(a.Calls) != len(f.nodes) {
				t.Errorf("only some nodes had work: %v", err)
			}
			t.Logf("%s", line)
		})
	}
}

package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// movers are other nodes of a cluster, between which work is handed over while they are asked for it.
type movers struct {
	api.Cluster
	asked int
	// look does what happens while the nodes are asked for the first, second time, and tells whether one of them has it.
	look func(time int) bool
}

func (m *movers) ToHolder(w http.ResponseWriter, _ *http.Request, _ job.ID) int {
	m.asked++
	if !m.look(m.asked) {
		return 0
	}
	_, _ = io.WriteString(w, "another one's")
	return http.StatusOK
}

func (m *movers) ToKeyHolder(w http.ResponseWriter, r *http.Request, _ job.Key) int {
	return m.ToHolder(w, r, job.ID{})
}

// What is handed over while the nodes are asked for it, one after the other, is found where it went.
func TestWhatMovesWhileItIsLookedForIsFound(t *testing.T) {
	ended := queuedJob(1, 1)
	ended.State, _ = ended.State.Begin(1)
	ended.State, _ = ended.State.Finish(job.End{Status: job.Completed, At: 2, Keep: 1000, Last: &job.Attempt{Number: 1}, Result: &job.Result{Status: 200}})
	for call, here := range map[string]int{
		"GET /jobs/" + ended.Job.ID.String():                       200,
		"GET /jobs/" + ended.Job.ID.String() + "/stream":           200,
		"POST /jobs/" + ended.Job.ID.String() + "/redrive":         201,
		"POST /jobs/" + ended.Job.ID.String() + "/webhook/redrive": 202,
		"GET /results?user_id=u&idempotent_key=k":                  200,
	} {
		for where, c := range map[string]struct {
			comes  bool // to this node while the others are asked first
			has    int  // the time at which another node has it
			status int
			asked  int
		}{
			"at another one":          {has: 1, status: 200, asked: 1},
			"from one to another one": {has: 2, status: 200, asked: 2},
			"to this one":             {comes: true, status: here, asked: 1},
			"nowhere":                 {status: 404, asked: 2},
		} {
			t.Run(call+" "+where, func(t *testing.T) {
				f, known := newFake(), answers{}
				there := func() bool { _, err := f.Get(context.Background(), ended.Job.ID); return err == nil }
				f.redrive = func(context.Context, job.ID) (intake.Receipt, error) {
					if !there() {
						return intake.Receipt{}, store.ErrNotFound
					}
					return intake.Receipt{ID: idOf(2), Status: job.Queued}, nil
				}
				f.redeliver = func(context.Context, job.ID) error {
					if !there() {
						return store.ErrNotFound
					}
					return nil
				}
				others := &movers{look: func(time int) bool {
					if c.comes {
						f.put(ended)
						known["u/k"] = `{"from":"here"}`
					}
					return time == c.has
				}}
				rt := client.InProcess(f.handler(func(conf *api.Config) { conf.Results, conf.Cluster = known, others }))
				method, path, _ := strings.Cut(call, " ")
				resp, body := ask(t, rt, method, path, nil)
				if resp.StatusCode != c.status || others.asked != c.asked {
					t.Errorf("answered %d %s after %d looks, want %d after %d", resp.StatusCode, body, others.asked, c.status, c.asked)
				}
			})
		}
	}
}

package nodetest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// pair is a region whose first node is about to leave, with a tenant of that node.
func pair(t *testing.T, scene func(t *testing.T, r *region, tenant string), edit ...func(*node.Config)) {
	t.Helper()
	together(t, "static", 2, func(t *testing.T, r *region) { scene(t, r, r.tenantOf(r.nodes[0])) }, edit...)
}

// A stream that is about to confirm that its client has the result, while the node hands its work over, spares the
// delivery: no other node makes it.
func TestAHandOverKeepsWhatAStreamMayConfirm(t *testing.T) {
	pair(t, func(t *testing.T, r *region, tenant string) {
		body := strings.Repeat("x", 1<<20) // more than a connection holds, so it is read when the client reads
		r.target.Reply(nodetest.Text(body).Late(5 * time.Second))
		leaving := r.nodes[0]
		id := r.at(leaving, r.submission(user(tenant)))
		st := r.open(id)
		defer st.close()
		<-time.After(time.Second)
		start := time.Now()
		leaving.Leave()
		<-time.After(5 * time.Second) // the answer is there, and waits for its client
		if got := names(st.rest()); !strings.HasSuffix(got, "completed") {
			t.Errorf("the stream told %q", got)
		}
		leaving.Left(start)
		leaving.Start()
		r.idle()
		if n := len(r.receiver.Of(id)); n != 0 {
			t.Errorf("the client has the result, and %d deliveries were made", n)
		}
		tells(t, r.get(id), "completed 200: 200; skipped")
	})
}

// A delivery that is on its way while the node hands its work over is made by nobody else meanwhile.
func TestAHandOverKeepsWhatIsBeingDelivered(t *testing.T) {
	pair(t, func(t *testing.T, r *region, tenant string) {
		r.receiver.Reply(nodetest.Status(200).Late(20 * time.Second))
		leaving := r.nodes[0]
		id := r.at(leaving, r.submission(user(tenant)))
		r.Until(time.Minute, "the delivery is on its way", func() bool { return len(r.receiver.Of(id)) == 1 })
		leaving.KeepsWork = true
		leaving.Stop()
		<-time.After(time.Minute)
		if n := len(r.receiver.Of(id)); n != 1 {
			t.Errorf("%d deliveries were made while the first one was open", n)
		}
		leaving.KeepsWork = false
		leaving.Start()
		tells(t, r.settled(id), "completed 200: 200; delivered after 1")
	})
}

// What waits goes to the others at once. It does not wait for the calls that are open, and what they leave to do follows.
func TestAHandOverGivesFirstWhatWaits(t *testing.T) {
	pair(t, func(t *testing.T, r *region, tenant string) {
		r.target.Answer(func(q nodetest.Request) nodetest.Reply {
			if q.Header.Get("X-Aqueduct-Node-Id") == "node-0" {
				return nodetest.Status(503).With("Retry-After", "1").Late(10 * time.Second)
			}
			return nodetest.Text("done")
		})
		leaving := r.nodes[0]
		open, waiting := r.at(leaving, r.submission(user(tenant))), r.at(leaving, r.submission(user(tenant)))
		start := time.Now()
		leaving.KeepsWork = true
		leaving.Stop()
		r.node = r.nodes[1]
		tells(t, r.settled(waiting), "completed 200: 200; delivered after 1")
		tells(t, r.settled(open), "completed 200: 503 200; delivered after 1")
		calls := r.target.Requests()
		if len(calls) != 3 {
			t.Fatalf("%d calls", len(calls))
		}
		if waited := calls[1].At.Sub(start); waited > 2*time.Second {
			t.Errorf("what waited was called after %v", waited)
		}
	}, takes(100, 1))
}

// Either end of a hand-over dies in the middle of it: before a batch is sent, or before its answer. No job is lost, and
// none runs twice because of it.
func TestAHandOverIsCutOff(t *testing.T) {
	for _, by := range deaths() {
		for victim, giver := range map[string]bool{"giver": true, "taker": false} {
			for moment := range int64(4) {
				t.Run(fmt.Sprintf("%v of the %s at moment %d", by, victim, moment), func(t *testing.T) {
					together(t, "static", 3, func(t *testing.T, r *region) { cutOff(t, r, by, giver, moment) })
				})
			}
		}
	}
}

func cutOff(t *testing.T, r *region, by nodetest.Death, giver bool, moment int64) {
	t.Helper()
	leaving, ids := r.nodes[1], r.held()
	var asked sync.Map // of the machines that have got a batch
	var passed atomic.Int64
	r.Net.Tap(func(s nodetest.Traffic) {
		taker := s.To
		if s.Answer {
			taker = s.From
		}
		if _, got := asked.Load(taker); !got {
			if s.Answer || !strings.Contains(string(s.Data), " /internal/handoff ") {
				return
			}
			asked.Store(taker, nil)
		}
		switch {
		case s.Data == nil, s.From != leaving.Machine.Name() && s.To != leaving.Machine.Name(), passed.Add(1) != moment+1:
		case giver:
			leaving.Kill(by)
		default:
			r.named(taker).Kill(by)
		}
	})
	leaving.KeepsWork = true
	leaving.Leave()
	start := time.Now()
	if giver {
		r.Until(time.Minute, "the giver is dead", func() bool { return !leaving.Running() })
	} else {
		leaving.Left(start)
	}
	r.Net.Tap(nil)
	if passed.Load() <= moment {
		t.Fatalf("there were only %d moments", passed.Load())
	}
	leaving.KeepsWork = false
	for _, n := range r.nodes {
		if !n.Running() {
			n.Start()
		}
	}
	r.runOnce(ids)
}

// held are jobs of many tenants that all wait, as their target is paused everywhere.
func (r *region) held() (ids []string) {
	r.t.Helper()
	for _, n := range r.nodes {
		r.node = n
		r.order("POST", "/targets/target.test/pause", "")
	}
	for i := range 300 {
		ids = append(ids, r.at(r.nodes[i%3], r.submission(user(fmt.Sprint("user-", i%30)))))
	}
	return ids
}

// runOnce lets them go, when what is in doubt has been cleared, and expects that each runs once.
func (r *region) runOnce(ids []string) {
	r.t.Helper()
	<-time.After(time.Minute)
	for _, n := range r.nodes {
		r.node = n
		r.order("POST", "/targets/target.test/resume", "")
	}
	r.idle()
	for i, id := range ids {
		tells(r.t, r.settledAt(r.nodes[i%3], id), "completed 200: 200; delivered after 1")
	}
	if n := r.calls(); n != len(ids) {
		r.t.Errorf("%d calls for %d jobs", n, len(ids))
	}
}

// A job that was handed to a node that then died is not said to be nowhere, however long that node is away.
func TestWhatADeadNodeWasHandedIsNotUnknown(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		r.target.Reply(nodetest.Status(503).With("Retry-After", "3600"))
		first := r.nodes[0]
		id := r.at(first, r.submission(user(r.tenantOf(first))))
		<-time.After(time.Minute)
		first.KeepsWork = true
		first.Stop()
		first.Start()
		<-time.After(time.Minute) // until it knows the others
		var holder *nodetest.Node
		for _, n := range r.nodes[1:] {
			if n.Gauge("aquifer_queue_backlog") > 0 {
				holder = n
			}
		}
		if holder == nil {
			t.Fatal("nobody has taken the job")
		}
		holder.Kill(nodetest.ProcessDeath)
		<-time.After(5 * time.Minute)
		for _, n := range r.nodes {
			if !n.Running() {
				continue
			}
			var refused *client.Error
			if _, err := n.Client().Get(t.Context(), id); !errors.As(err, &refused) || refused.Status != http.StatusBadGateway {
				t.Errorf("%s says %v", n.Name, err)
			}
		}
		holder.Start()
		r.target.Reply(nodetest.Text("done"))
		<-time.After(time.Minute)
		tells(t, r.settledAt(first, id), "completed 200: 503 200; delivered after 1")
	})
}

// A node leaves while nothing comes through to one of the others: what was sent to that one comes late, when the node is
// back and asks again.
func TestANodeLeavesABrokenCluster(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		leaving, ids := r.nodes[1], r.held()
		r.Net.Cut(leaving.Machine, r.nodes[2].Machine)
		leaving.KeepsWork = true
		leaving.Stop()
		leaving.KeepsWork = false
		r.Net.Heal(leaving.Machine, r.nodes[2].Machine)
		leaving.Start()
		r.runOnce(ids)
	})
}

// A node that leaves hands what it has not done to the nodes that own its tenants next: nothing waits for it to come
// back, and nothing runs twice.
func TestALeavingNodeHandsItsWorkOver(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		r.target.Reply(nodetest.Text("done").Late(2 * time.Second))
		var ids []string
		for i := range 300 {
			ids = append(ids, r.at(r.nodes[i%3], r.submission(user(fmt.Sprint("user-", i%30)), timeout(time.Minute))))
		}
		leaving := r.nodes[1]
		leaving.KeepsWork = true // its queue does not hear that the work is elsewhere
		leaving.Stop()
		if taken := r.nodes[0].Gauge("aquifer_handoff_jobs_total") + r.nodes[2].Gauge("aquifer_handoff_jobs_total"); taken < 50 || taken > 150 {
			t.Errorf("%v jobs were taken", taken)
		}
		r.node = r.nodes[0]
		done := 0
		for _, id := range ids {
			// What had ended there is on its disk only.
			if _, err := r.node.Client().Get(t.Context(), id); err == nil {
				tells(t, r.settled(id), "completed 200: 200; delivered after 1")
				done++
			}
		}
		if done < len(ids)*3/4 {
			t.Errorf("only %d of %d jobs are known to those that stayed", done, len(ids))
		}
		r.idle()
		if n := r.calls(); n != len(ids) {
			t.Errorf("%d calls for %d jobs", n, len(ids))
		}
		leaving.Start()
		r.idle()
	})
}

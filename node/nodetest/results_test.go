package nodetest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// result asks the node what the job of a key has answered.
func (s *stage) result(user, key string) (int, string) {
	s.t.Helper()
	return s.ask(http.MethodGet, "/results?user_id="+user+"&idempotent_key="+key, "")
}

// A node that remembers alone tells what its own jobs have answered, by their keys.
func TestResultByKey(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(5 * time.Second))
		id := s.submit()
		if status, answer := s.result("user", "key-1"); status != 404 || answer != `{"error":"job result not found"}`+"\n" {
			t.Errorf("before the end: %d %s", status, answer)
		}
		s.settled(id)
		status, answer := s.result("user", "key-1")
		for _, want := range []string{`"job_id":"` + id + `"`, `"status":"completed"`, `"response_status":200`, `"body":"done"`} {
			if status != 200 || !strings.Contains(answer, want) {
				t.Errorf("got %d %s, which lacks %s", status, answer, want)
			}
		}
		if status, _ := s.result("user", "key-2"); status != 404 {
			t.Errorf("an unknown key: %d", status)
		}
	})
}

// Any node of a cluster tells what the job of a key has answered.
func TestResultByKeyInACluster(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		r.target.Reply(nodetest.Text("done"))
		id := r.at(r.nodes[0], r.submission())
		r.idle()
		for _, n := range r.nodes {
			r.node = n
			if status, answer := r.result("user", "key-1"); status != 200 || !strings.Contains(answer, id) || !strings.Contains(answer, `"body":"done"`) {
				t.Errorf("%s: got %d %s", n.Name, status, answer)
			}
			if status, answer := r.result("user", "unknown"); status != 404 {
				t.Errorf("%s: an unknown key: %d %s", n.Name, status, answer)
			}
		}
	})
}

// What cannot be told while a node is away is not denied.
func TestResultByKeyWithoutItsHolder(t *testing.T) {
	together(t, "static", 3, func(t *testing.T, r *region) {
		r.at(r.nodes[0], r.submission())
		r.idle()
		holder := r.nodes[slices.IndexFunc(r.nodes, func(n *nodetest.Node) bool { return n.Gauge("aquifer_attempts_total") > 0 })]
		holder.Kill(nodetest.ProcessDeath)
		for _, n := range r.nodes {
			r.node = n
			if n == holder {
				continue
			}
			if status, answer := r.result("user", "key-1"); status != 502 || !strings.Contains(answer, holder.Name) {
				t.Errorf("%s: got %d %s", n.Name, status, answer)
			}
		}
	})
}

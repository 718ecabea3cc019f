package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// A tenant whose jobs wait here stays this node's, though nobody asks for it, also after a restart; and it is one tenant,
// whatever API keys it uses.
func TestTenantsWithWorkStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.node("a", "AQUIFER_REMOTE_IDEMPOTENCY_ENABLED=false", "AQUIFER_REMOTE_RESULT_ENABLED=false", "AQUIFER_SHARED_IDEMPOTENCY_ENABLED=true",
		"AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_PROVIDER=valkey", "AQUIFER_CLUSTER_SELF_ID=a", "AQUIFER_CLUSTER_SELF_ADDR=http://127.0.0.1:1",
		"AQUIFER_CLUSTER_HEARTBEAT_SECONDS=1", "AQUIFER_CLUSTER_INSTANCE_TTL_SECONDS=60", "AQUIFER_CLUSTER_ASSIGNMENT_IDLE_SECONDS=1", "AQUIFER_CLUSTER_VALKEY_TIMEOUT_MS=10000")
	target := strings.TrimPrefix(w.target.URL, "http://")
	if got := a.ask(http.MethodPost, "/targets/"+target+"/pause", ""); got.code != 200 {
		t.Fatalf("answered %s", got.body)
	}
	submit := func(user, scope, key, headers string) {
		t.Helper()
		valkeytest.Until(t, func() error {
			got := a.ask(http.MethodPost, "/jobs", fmt.Sprintf(`{"user_id":%q,"idempotency_scope":%q,"idempotent_key":%q,"method":"POST",`+
				`"url":"%s/","webhook_url":"%s/","headers":{%s}}`, user, scope, key, w.target.URL, w.receiver.URL, headers))
			if got.code != 201 {
				return errors.New(got.body)
			}
			return nil
		})
	}
	submit("ada", "user", "1", `"X-Api-Key":"one"`)
	submit("ada", "user", "2", `"X-Api-Key":"two"`)
	submit("bob", "shared", "3", "")
	name := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return "aqueduct:assignment:" + hex.EncodeToString(sum[:])
	}
	waiting := []string{name("ada"), name(cluster.SharedKey("3"))}
	outlive := func() { // longer than an assignment lives that nobody renews
		t.Helper()
		for range 6 {
			before := w.Get("aqueduct:instance:a")
			valkeytest.Until(t, func() error {
				if w.Get("aqueduct:instance:a") == before {
					return errors.New("no new heartbeat")
				}
				return nil
			})
		}
		for _, key := range waiting {
			if got := w.Get(key); got != "a" {
				t.Errorf("%s belongs to %q", key, got)
			}
		}
	}
	outlive()
	a.stop()
	waiting = slices.Delete(waiting, 1, 2) // whose it is only its next request tells
	a.start()
	outlive()
	until(t, `"active_users":2`, func() string { return w.Get("aqueduct:instance:a") })
	if got := a.ask(http.MethodPost, "/targets/"+target+"/resume", ""); got.code != 200 {
		t.Fatalf("answered %s", got.body)
	}
	valkeytest.Until(t, func() error {
		if keys, _ := w.Do("KEYS", "aqueduct:assignment:*").AsStrSlice(); len(keys) != 0 {
			return fmt.Errorf("idle tenants are not given up: %q", keys)
		}
		return nil
	})
}

// found is a store of which only Get works.
type found struct {
	store.Jobs

	jobs map[job.ID]job.Snapshot
}

func (f found) Get(_ context.Context, id job.ID) (job.Snapshot, error) {
	s, ok := f.jobs[id]
	if !ok {
		return s, store.ErrNotFound
	}
	return s, nil
}

// While a tenant has work but none of its jobs can tell whose it is, each user may have some.
func TestWorkOfATenantWhoseJobIsGone(t *testing.T) {
	t.Parallel()
	lines := func() *queue.Queue {
		return queue.New(queue.Config{CountTenants: true, Settings: func(string) pace.Settings { return pace.Settings{} }})
	}
	jobs := map[job.ID]job.Snapshot{}
	w := working{calls: lines(), deliveries: lines(), store: found{jobs: jobs}}
	is := func(adas, bobs bool) {
		t.Helper()
		if a, b := w.on("ada"), w.on("bob"); a != adas || b != bobs {
			t.Errorf("work of ada: %v, of bob: %v; want %v, %v", a, b, adas, bobs)
		}
	}
	is(false, false)
	lane := job.Lane{Target: "http://x", Tenant: job.Tenant{1}}
	w.calls.Restore(job.Entry{Lane: lane, Order: 1, ID: job.ID{1}})
	w.calls.Restore(job.Entry{Lane: lane, Order: 2, ID: job.ID{2}})
	is(true, true)
	jobs[job.ID{2}] = job.Snapshot{Job: &job.Job{Request: job.Request{UserID: "ada"}}}
	is(true, false)
}

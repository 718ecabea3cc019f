package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const someCluster = `{"self":{"id":"node-1","address":"http://node-1:8080","state":"active","user_capacity":100,"active_users":3},"members":3,"nodes":[` +
	`{"id":"node-1","address":"http://node-1:8080","state":"active","user_capacity":100,"active_users":3},` +
	`{"id":"node-2","address":"http://node-2:8080","state":"draining","user_capacity":100},` +
	`{"id":"node-3","address":"http://node-3:8080","state":"active","user_capacity":20,"active_users":1}],` +
	`"algorithm":"rendezvous","provider":"gossip","state":"active","active_users":3,"user_capacity":100,` +
	`"prune_ttl_seconds":30,"pruned_members":1,"pruned_ids":["node-3"],"coordination_failures":0}`

func TestClusterShowsItsNodes(t *testing.T) {
	h := answer(200, `{"status":"ok","cluster":`+someCluster+`}`)
	want := outcome{exitDone, `NODE    STATE     TENANTS   ADDRESS             NOTE
node-1  active    3 of 100  http://node-1:8080  this node
node-2  draining  0 of 100  http://node-2:8080  
node-3  active    1 of 20   http://node-3:8080  passed over
`, "as node-1 sees it, by gossip\n"}
	for _, args := range [][]string{{"cluster"}, {"cluster", "members"}} {
		if got := against(t, h, "", args...); got != want {
			t.Errorf("%v: %+v\nwant %+v", args, got, want)
		}
	}
	got := against(t, h, "", "cluster", "--json")
	if got.code != exitDone || !sameJSON(got.stdout, someCluster) {
		t.Errorf("as JSON: %+v", got)
	}
}

func TestClusterThatIsSeenAsItWas(t *testing.T) {
	stale := answer(200, `{"cluster":`+strings.Replace(someCluster, `"prune_ttl`, `"stale_since":1764490000123,"prune_ttl`, 1)+`}`)
	want := "as node-1 sees it, by gossip, as it was at " + time.UnixMilli(1764490000123).Format("2006-01-02 15:04:05.000") + "\n"
	if got := against(t, stale, "", "cluster"); got.code != exitDone || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestClusterThatIsNotKnown(t *testing.T) {
	const words = "aquifer: node-1 does not know its cluster yet: nobody\\x1b has answered\n"
	unsettled := answer(200, `{"cluster":`+strings.Replace(someCluster, `"prune_ttl`, `"unsettled":"nobody\u001b has answered","prune_ttl`, 1)+`}`)
	got := against(t, unsettled, "", "cluster")
	if got.code != exitTryLater || !strings.Contains(got.stdout, "node-2") || !strings.HasSuffix(got.stderr, words) {
		t.Errorf("%+v", got)
	}
	if got := against(t, unsettled, "", "cluster", "--json"); got.code != exitTryLater || got.stderr != words {
		t.Errorf("as JSON: %+v", got)
	}
	alone := answer(200, `{"status":"ok"}`)
	if got := against(t, alone, "", "cluster"); got != (outcome{exitNotFound, "", "aquifer: the node is in no cluster\n"}) {
		t.Errorf("%+v", got)
	}
}

func TestClusterOwner(t *testing.T) {
	var asked string
	h := func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		answer(200, `{"id":"node-2","address":"http://node-2:8080","local":false}`)(w, r)
	}
	if got := against(t, h, "", "cluster", "owner", "a&b"); got != (outcome{exitDone, "node-2  http://node-2:8080\n", ""}) {
		t.Errorf("%+v", got)
	}
	if asked != "/cluster/owner?user_id=a%26b" {
		t.Errorf("asked %s", asked)
	}
	got := against(t, h, "", "cluster", "owner", "alice", "--json")
	if got != (outcome{exitDone, `{"id":"node-2","address":"http://node-2:8080","local":false}` + "\n", ""}) {
		t.Errorf("as JSON: %+v", got)
	}
	for _, tt := range []struct {
		h    http.HandlerFunc
		want outcome
	}{
		{answer(404, `{"error":"the node is in no cluster"}`), outcome{exitNotFound, "", "aquifer: the node is in no cluster\n"}},
		{answer(400, `{"error":"user_id is required"}`), outcome{exitUsage, "", "aquifer: the node refuses the request: user_id is required\n"}},
		{
			answer(503, `{"error":"the node does not know its cluster yet: nobody"}`, "Retry-After", "5"),
			outcome{exitTryLater, "", "aquifer: the node refuses the request for now: the node does not know its cluster yet: nobody; try again in 5 s\n"},
		},
	} {
		if got := against(t, tt.h, "", "cluster", "owner", "alice"); got != tt.want {
			t.Errorf("%+v, want %+v", got, tt.want)
		}
	}
}

// TestClusterScripts runs what needs a node that is in a cluster.
func TestClusterScripts(t *testing.T) {
	c := serve(t, "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ID=node-1", "AQUIFER_CLUSTER_SELF_ADDR=http://127.0.0.1:1",
		"AQUIFER_CLUSTER_MEMBERS=node-2=http://127.0.0.1:2")
	p := scripts("testdata/cluster")
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("AQUIFER_SERVER", c.url)
		return nil
	}
	testscript.Run(t, p)
}

package client_test

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

func TestOwner(t *testing.T) {
	var got sent
	c := newClient(t, client.InProcess(record(&got, 200, `{"id":"node-2","address":"http://node-2:8080","local":true}`)))
	o, err := c.Owner(t.Context(), "a&b")
	if want := (client.Owner{ID: "node-2", Address: "http://node-2:8080", Local: true}); err != nil || o != want {
		t.Errorf("got %+v, %v", o, err)
	}
	if got.line != "GET /cluster/owner?user_id=a%26b" {
		t.Errorf("asked %s", got.line)
	}
	c = newClient(t, client.InProcess(record(&got, 404, `{"error":"the node is in no cluster"}`)))
	if _, err := c.Owner(t.Context(), "a"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

// What a node tells of its cluster comes out as it came in.
func TestHealthOfACluster(t *testing.T) {
	const cluster = `{"self":{"id":"a","address":"http://a","state":"active","user_capacity":100},"members":2,"nodes":[` +
		`{"id":"a","address":"http://a","state":"active","user_capacity":100},` +
		`{"id":"b","address":"http://b","region":"fra","state":"draining","user_capacity":7,"active_users":3,"version":"v1"}],` +
		`"algorithm":"rendezvous","provider":"gossip","state":"active","active_users":0,"user_capacity":100,"unsettled":"why",` +
		`"prune_ttl_seconds":30,"pruned_members":1,"pruned_ids":["b"],"coordination_failures":0}`
	var got sent
	c := newClient(t, client.InProcess(record(&got, 200, `{"status":"ok","cluster":`+cluster+`}`)))
	h, err := c.Health(t.Context())
	if err != nil || h.Cluster == nil {
		t.Fatalf("got %+v, %v", h, err)
	}
	if raw, err := json.Marshal(h.Cluster); err != nil || string(raw) != cluster {
		t.Errorf("got %s, %v\nwant %s", raw, err, cluster)
	}
	if want := []string{"b"}; !reflect.DeepEqual(h.Cluster.PrunedIDs, want) {
		t.Errorf("pruned are %v", h.Cluster.PrunedIDs)
	}
}

package cluster_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

// On real connections, a node that is gone refuses, and one that goes while it has the request may have
// taken it.
func TestRealConnections(t *testing.T) {
	fleet := clustertest.NewFleet(clustertest.Nodes(3)...)
	servers, transport := make(map[string]*httptest.Server), new(http.Transport)
	defer transport.CloseIdleConnections()
	var dying atomic.Bool
	for _, m := range clustertest.Nodes(3) {
		f := cluster.NewForwarder(cluster.ForwarderConfig{
			Owners:    cluster.NewOwners(cluster.OwnersConfig{View: fleet.View(m.ID)}),
			Transport: transport, Logger: slog.New(slog.DiscardHandler),
		})
		srv := httptest.NewServer(cluster.NewGate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case f.ToOwner(w, r, cluster.Call{Key: r.URL.Query().Get("tenant"), Body: []byte("x")}) != 0:
			case dying.Load():
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.WriteString(w, m.ID)
			}
		}), cluster.GateConfig{Logger: slog.New(slog.DiscardHandler)}))
		t.Cleanup(srv.Close)
		srv.Config.ErrorLog = nil
		servers[m.ID] = srv
		fleet.Set(cluster.Member{ID: m.ID, Address: srv.URL})
	}
	key := keyOf(t, fleet.View("node-0"), "node-1")
	next := cluster.Rank(fleet.View("node-0").Roster().Members, key)[1].ID
	post := func() (int, string) {
		resp, err := http.Post(servers["node-0"].URL+"/jobs?tenant="+key, "application/json", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if status, body := post(); status != 200 || body != "node-1" {
		t.Errorf("all well: %d %s", status, body)
	}
	dying.Store(true)
	if status, body := post(); status != 504 || !strings.Contains(body, `"owner_id":"node-1"`) {
		t.Errorf("the owner dies: %d %s", status, body)
	}
	dying.Store(false)
	servers["node-1"].CloseClientConnections()
	servers["node-1"].Close()
	if status, body := post(); status != 200 || body != next {
		t.Errorf("the owner is gone: %d %s, want %s", status, body, next)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

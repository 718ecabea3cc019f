package cluster_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

// BenchmarkOwner: who owns a tenant, of ten nodes.
func BenchmarkOwner(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = tenant(i)
	}
	o := cluster.NewOwners(cluster.OwnersConfig{View: clustertest.NewFleet(clustertest.Nodes(10)...).View("node-0")})
	look := func(b *testing.B, key string) {
		if _, err := o.Of(b.Context(), key, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("warm", func(b *testing.B) {
		for _, key := range keys {
			look(b, key)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			look(b, keys[i%len(keys)])
		}
	})
	b.Run("one is pruned", func(b *testing.B) {
		o.Prune(b.Context(), "node-5", "")
		defer o.Heard("node-5")
		for i := 0; b.Loop(); i++ {
			look(b, keys[i%len(keys)])
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				look(b, keys[i%len(keys)])
			}
		})
	})
	b.Run("cold", func(b *testing.B) {
		long := strings.Repeat("x", 200) // too long to be remembered
		for b.Loop() {
			look(b, long)
		}
	})
}

// BenchmarkForward compares a job that is handed to its owner with one that makes a hop, over real
// connections, with a body of 256 bytes. Both go by turns, so that neither has the better machine.
func BenchmarkForward(b *testing.B) {
	body := strings.Repeat("x", 256)
	fleet := clustertest.NewFleet(clustertest.Nodes(2)...)
	servers := make(map[string]*httptest.Server)
	for _, m := range clustertest.Nodes(2) {
		servers[m.ID] = benchNode(b, fleet, m.ID)
		fleet.Set(cluster.Member{ID: m.ID, Address: servers[m.ID].URL})
	}
	key := keyOf(b, fleet.View("node-0"), "node-1")
	client := &http.Transport{MaxIdleConnsPerHost: 64}
	defer client.CloseIdleConnections()
	send := func(to string) time.Duration {
		start := time.Now()
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, servers[to].URL+"/jobs", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("X-Tenant", key)
		resp, err := client.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			b.Fatal(resp.Status)
		}
		return time.Since(start)
	}
	var direct, hop []time.Duration
	for b.Loop() {
		direct = append(direct, send("node-1"))
		hop = append(hop, send("node-0"))
	}
	slices.Sort(direct)
	slices.Sort(hop)
	median := func(d []time.Duration) float64 { return float64(d[len(d)/2].Nanoseconds()) / 1e3 }
	b.ReportMetric(median(direct), "µs-direct")
	b.ReportMetric(median(hop), "µs-hop")
	b.ReportMetric(median(hop)-median(direct), "µs-added")
	b.ReportMetric(median(hop)/median(direct), "ratio")
}

func benchNode(b *testing.B, fleet *clustertest.Fleet, id string) *httptest.Server {
	b.Helper()
	s, log := seal(b, id, secret), slog.New(slog.DiscardHandler)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	f := cluster.NewForwarder(cluster.ForwarderConfig{
		Owners: cluster.NewOwners(cluster.OwnersConfig{View: fleet.View(id)}), Transport: transport, Seal: s, Logger: log,
	})
	srv := httptest.NewServer(cluster.NewGate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := cluster.Call{Key: r.Header.Get("X-Tenant"), Body: body, Header: http.Header{"X-Tenant": r.Header["X-Tenant"]}}
		if f.ToOwner(w, r, c) != 0 {
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"job_id":"0193770ad15ad9e34c5f8f3f6a6b9a4d","status":"queued"}`+"\n")
	}), cluster.GateConfig{Seal: s, Logger: log}))
	b.Cleanup(func() { srv.Close(); transport.CloseIdleConnections() })
	return srv
}

package cluster_test

import (
	"net/http"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func TestOnlyWhatANodeReadsIsCarried(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{"Content-Type", "Last-Event-ID", "Idempotency-Key", "X-Aqueduct-Durability", "X-Aquifer-Max-Retries"} {
		h.Set(name, "kept")
	}
	for _, name := range []string{
		"Authorization", "Cookie", "Host", "Content-Length", "Connection", "Transfer-Encoding", "Accept-Encoding",
		"X-Aquifer-Cluster-Forwarded", "X-Aquifer-Cluster-Tried", "X-Aquifer-Peer", "X-Aquifer-Peer-Signature", "X-Forwarded-For",
	} {
		h.Set(name, "left")
	}
	got := cluster.Carried(h)
	if len(got) != 5 {
		t.Errorf("%v is carried", got)
	}
	for name, values := range got {
		if values[0] != "kept" {
			t.Errorf("%s is carried", name)
		}
	}
}

// A key in the header makes the transport think that it may send a request twice. What became of the
// first time counts all the same.
func TestKeysInTheHeaderDoNotMakeASecondOwner(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key, owner := w.of("node-1", "node-2"), w.nodes["node-1"]
		w.post("node-0", key, "x") // the connection is kept
		owner.answerWith(func(http.ResponseWriter, *http.Request) {
			owner.kill()
			panic(http.ErrAbortHandler)
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node-0/jobs", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Tenant", key)
		req.Header.Set("Idempotency-Key", "k")
		w.send(req).refused(t, 504)
		w.took("", "node-1")
	})
}

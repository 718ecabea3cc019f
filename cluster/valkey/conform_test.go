package valkey_test

import (
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

func TestConforms(t *testing.T) {
	t.Parallel()
	clustertest.Conform(t, clustertest.Provider{New: func(t *testing.T, _ []cluster.Member) clustertest.Cluster {
		return &world{server: valkeytest.Start(t), nodes: make(map[string]*node)}
	}})
}

type world struct {
	server *valkeytest.Server
	nodes  map[string]*node // the first of each id that runs
}

func (w *world) Start(t *testing.T, m cluster.Member) cluster.View {
	c := config(t, w.server.URL(), m)
	c.TTL = short
	c.Load = func() int { return m.ActiveTenants }
	n := start(t, c)
	if w.nodes[m.ID] == nil {
		w.nodes[m.ID] = n
	}
	return n
}

func (w *world) Leave(_ *testing.T, id string) {
	w.nodes[id].leave()
	delete(w.nodes, id)
}

func (w *world) Kill(_ *testing.T, id string) {
	w.nodes[id].kill()
	delete(w.nodes, id)
}

package gossip_test

import (
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

func TestGossipConforms(t *testing.T) {
	clustertest.Conform(t, clustertest.Provider{Bubble: true, New: func(t *testing.T, _ []cluster.Member) clustertest.Cluster {
		return newWorld(t)
	}})
}

package nodetest_test

import (
	"fmt"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// All nodes name the same owner of a tenant: the one that does its jobs.
func TestEveryNodeNamesTheOwner(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		named := map[string]string{}
		for i := range 12 {
			tenant := fmt.Sprint("user-", i)
			r.at(r.nodes[i%3], r.submission(labelled(tenant, i)))
			for _, n := range r.nodes {
				o, err := n.Client().Owner(t.Context(), tenant)
				switch {
				case err != nil:
					t.Fatalf("%s: %v", n.Name, err)
				case o.Local != (o.ID == n.Name) || o.Address != "http://"+o.ID+".test":
					t.Errorf("%s says %+v", n.Name, o)
				case named[tenant] != "" && named[tenant] != o.ID:
					t.Errorf("%s is said to belong to %s and to %s", tenant, named[tenant], o.ID)
				}
				named[tenant] = o.ID
			}
		}
		r.idle()
		for tenant, by := range r.owners() {
			if by[named[tenant]] != 1 {
				t.Errorf("%s belongs to %s, and its job was done by %v", tenant, named[tenant], by)
			}
		}
	})
}

// A node that is the only one knows it.
func TestAClusterOfOne(t *testing.T) {
	together(t, "gossip", 1, func(t *testing.T, r *region) {
		h, err := r.node.Client().Health(t.Context())
		if err != nil || h.Cluster == nil || h.Cluster.Provider != "gossip" || h.Cluster.Members != 1 || h.Cluster.Self.ID != "node-0" {
			t.Errorf("health: %+v, %v", h.Cluster, err)
		}
		if _, err := r.node.Client().Owner(t.Context(), ""); !fault.Is(err, fault.Invalid) {
			t.Errorf("of nobody: %v", err)
		}
	})
}

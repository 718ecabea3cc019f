package node

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

// The providers of membership.
const (
	providerStatic = "static"
	providerGossip = "gossip"
	providerValkey = "valkey"
)

// self is the node as a member of its cluster.
func (c ClusterConfig) self() cluster.Member {
	address, _ := cluster.ParseAddress(c.SelfAddr) // one that is not valid stops the start
	return cluster.Member{
		ID: c.SelfID, Address: address, Region: c.Region, State: cluster.Active, Capacity: c.MaxActiveUsers, Version: version(),
	}
}

// version is that of the program, as it was built.
func version() string {
	const unknown = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return cmp.Or(info.Main.Version, unknown)
}

// logged is what the log says of the node's place in its cluster: nothing if it is in none.
func (c ClusterConfig) logged() []any {
	if !c.Enabled {
		return nil
	}
	return []any{"cluster", c.Provider, "member", c.SelfID, "member_address", c.SelfAddr}
}

// members are those of a static list.
func (c ClusterConfig) members() ([]cluster.Member, error) {
	return cluster.ParseMembers(strings.Join(c.Members, ","))
}

// keys encrypt gossip.
func (c ClusterConfig) keys() ([][]byte, error) {
	return gossip.ParseKeys(strings.Join(c.GossipKey, ","))
}

// clusterProblems lists what breaks the rules of a cluster. A node that is in none may have any settings of one. The
// id of the node itself, which that in the cluster is by default, is judged without a cluster too.
func (c *Config) clusterProblems() []Problem {
	if !c.Cluster.Enabled {
		return nil
	}
	var list []Problem
	if id := c.Cluster.SelfID; id != c.NodeID && cluster.CheckID(id) != nil {
		list = append(list, Problem{Name: "AQUIFER_CLUSTER_SELF_ID", Rule: cluster.IDRule, Value: id})
	}
	return append(list, c.Cluster.problems()...)
}

// problems lists what is wrong beside the id, which may be that of the node itself.
func (c ClusterConfig) problems() []Problem {
	var list []Problem
	check := func(err error, name string) {
		if err != nil {
			list = append(list, Problem{Name: name, Err: err})
		}
	}
	_, err := cluster.ParseAddress(c.SelfAddr)
	check(err, "AQUIFER_CLUSTER_SELF_ADDR")
	members, err := c.members()
	if err == nil && c.Provider == providerStatic && len(list) == 0 && cluster.CheckID(c.SelfID) == nil {
		_, err = cluster.NewStatic(c.self(), members)
	}
	check(err, "AQUIFER_CLUSTER_MEMBERS")
	_, err = c.keys()
	check(err, "AQUIFER_CLUSTER_GOSSIP_KEY")
	switch c.Provider {
	case providerGossip:
		_, err = gossip.ParseJoin(strings.Join(c.Join, ","))
		check(err, "AQUIFER_CLUSTER_JOIN")
		check(gossip.CheckBind(c.GossipBind), "AQUIFER_CLUSTER_GOSSIP_BIND")
		check(gossip.CheckAdvertise(c.GossipAdvertise), "AQUIFER_CLUSTER_GOSSIP_ADVERTISE")
		if len(list) == 0 && cluster.CheckID(c.SelfID) == nil {
			_, err = gossip.New(gossip.Config{Self: c.self()}, gossip.Deps{}) // what is left is that it tells too much
			check(err, "AQUIFER_CLUSTER_SELF_ADDR")
		}
	case providerValkey:
		check(link.Check(c.ValkeyURL), "AQUIFER_CLUSTER_VALKEY_URL")
	}
	_, err = cluster.NewSeal(c.SelfID, c.PeerSecret...)
	check(err, "AQUIFER_PEER_SECRET")
	return list
}

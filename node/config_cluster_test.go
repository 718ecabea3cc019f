package node

import (
	"strings"
	"testing"
)

// What keeps a node from being one of a cluster is told before it starts, with the name of the setting.
func TestClusterConfigProblems(t *testing.T) {
	const static, gossips = "AQUIFER_CLUSTER_PROVIDER=static", "AQUIFER_CLUSTER_PROVIDER=gossip"
	const withValkey = "AQUIFER_CLUSTER_PROVIDER=valkey"
	for _, tt := range []struct{ provider, setting, says string }{
		{static, "AQUIFER_CLUSTER_SELF_ADDR=10.0.0.1", `node address must begin with http:// or https://, got "10.0.0.1"`},
		{static, "AQUIFER_CLUSTER_SELF_ADDR=http://h/x", `node address must have nothing but scheme, host and port, got "http://h/x"`},
		{static, "AQUIFER_CLUSTER_SELF_ADDR=http://", `node address must have a host, got "http://"`},
		{static, "AQUIFER_CLUSTER_SELF_ADDR=http://0.0.0.0:8080", `node address must have a host that other nodes can call, got "http://0.0.0.0:8080"`},
		{gossips, "AQUIFER_CLUSTER_SELF_ADDR=http://h:99999", `node address must have a port from 1 to 65535, or none, got "http://h:99999"`},
		{static, "AQUIFER_CLUSTER_SELF_ID=a b", `must be 1 to 128 visible ASCII characters without "," and "=", got "a b"`},
		{static, "AQUIFER_CLUSTER_MEMBERS=b=http://b:80,c=http://b", `member "c=http://b": the address http://b is that of b, too`},
		{static, "AQUIFER_CLUSTER_MEMBERS=b", `member "b": a member must be id=http://host:port`},
		{static, "AQUIFER_CLUSTER_MEMBERS=b,c", `member "b": a member must be id=http://host:port; member "c": a member must be id=http://host:port`},
		{static, "AQUIFER_CLUSTER_MEMBERS=a=http://b:8080", `member a is this node, whose address is http://a:8080, got http://b:8080`},
		{static, "AQUIFER_CLUSTER_MEMBERS=b=http://a:8080", `member b has the address of this node, http://a:8080, which is a`},
		{static, "AQUIFER_CLUSTER_MEMBERS=b=http://b,c=http://b", `member "c=http://b": the address http://b is that of b, too`},
		{static, "AQUIFER_PEER_SECRET=short", `a secret of the peers must have at least 16 bytes, got 5`},
		{gossips, "AQUIFER_CLUSTER_JOIN=http://b:1", `address must be host or host:port, got "http://b:1"`},
		{gossips, "AQUIFER_CLUSTER_GOSSIP_BIND=7946", `gossip bind must be ip:port or :port, got "7946"`},
		{gossips, "AQUIFER_CLUSTER_GOSSIP_ADVERTISE=a:0", `gossip advertise: address must be host or host:port, got "a:0"`},
		{gossips, "AQUIFER_CLUSTER_GOSSIP_KEY=AAAA", `gossip key 1 must have 16, 24 or 32 bytes, got 3`},
		{gossips, "AQUIFER_CLUSTER_GOSSIP_KEY=?", `gossip key 1 must be in base64`},
		{static, "AQUIFER_CLUSTER_SELF_ADDR=http://*:80", `node address must have a host that other nodes can call, got "http://*:80"`},
		{static, "AQUIFER_CLUSTER_MEMBERS=b=http://224.0.0.1", `member "b=http://224.0.0.1": node address must have a host that other nodes can call, got "http://224.0.0.1"`},
		{
			gossips, "AQUIFER_CLUSTER_GOSSIP_ADVERTISE=0.0.0.0:7946",
			`gossip advertise: address must have a host that other nodes can call, got "0.0.0.0:7946"`,
		},
		{
			withValkey, "AQUIFER_CLUSTER_VALKEY_URL=valkey://h?master_set=",
			`master_set of the Valkey URL must name what the Sentinels watch, or not be there`,
		},
		{
			withValkey, "AQUIFER_CLUSTER_VALKEY_URL=http://v",
			`the Valkey URL must begin with redis://, rediss://, valkey:// or valkeys://, got "http"`,
		},
	} {
		checkRefusal(t, tt.says, "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ID=a", "AQUIFER_CLUSTER_SELF_ADDR=http://a:8080", tt.provider, tt.setting)
	}
	checkRefusal(t, `must be 1 to 128 visible ASCII characters without "," and "=", got "a b"`, "AQUIFER_NODE_ID=n",
		"AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ADDR=http://a:8080", "AQUIFER_CLUSTER_SELF_ID=a b")
}

func TestMoreThanGossipCanTell(t *testing.T) {
	_, _, err := FromEnv([]string{
		"AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_PROVIDER=gossip", "AQUIFER_CLUSTER_SELF_ADDR=http://" + strings.Repeat("a", 500),
	}, "host-1")
	if err == nil || !strings.Contains(err.Error(), "AQUIFER_CLUSTER_SELF_ADDR: address, region and version of a node must fit into 512 bytes") {
		t.Errorf("got %v", err)
	}
}

// Every id that may stand in a cluster may also be the name of a node.
func TestClusterIDsAreNames(t *testing.T) {
	for _, id := range []string{"a/b", "node@1", "n"} {
		c := mustConfig(t, "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ADDR=HTTP://A:80/", "AQUIFER_CLUSTER_SELF_ID="+id)
		if c.NodeID != id || c.Cluster.self().ID != id || c.Cluster.self().Address != "http://a" {
			t.Errorf("got %+v, whose name is %s", c.Cluster.self(), c.NodeID)
		}
	}
}

// The other nodes are told which version a node is.
func TestAMemberHasAVersion(t *testing.T) {
	if m := (ClusterConfig{SelfID: "node-1"}).self(); m.Version == "" {
		t.Errorf("%+v has no version", m)
	}
}

package node

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A setting that nothing reads is told, with the reason.
func TestIdleSettings(t *testing.T) {
	const noCluster = "it has no effect unless AQUIFER_CLUSTER_ENABLED is true"
	member := []string{"AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ADDR=http://a:8080", "AQUIFER_CLUSTER_SELF_ID=a"}
	gossips := append(slices.Clone(member), "AQUIFER_CLUSTER_PROVIDER=gossip")
	valkeys := append(slices.Clone(member), "AQUIFER_CLUSTER_PROVIDER=valkey", "AQUIFER_VALKEY_URL=valkey://h")
	for _, tt := range []struct {
		environ []string
		want    []Warning
	}{
		{[]string{"AQUIFER_CLUSTER_MEMBERS=zzz", "AQUIFER_CLUSTER_ENABLED=no"}, []Warning{{"AQUIFER_CLUSTER_MEMBERS", noCluster}}},
		{
			[]string{"AQUIFER_CLUSTER_PROVIDER=gossip", "AQUIFER_CLUSTER_JOIN=b", "AQUIFER_PEER_SECRET=0123456789abcdef"},
			[]Warning{{"AQUIFER_CLUSTER_JOIN", noCluster}, {"AQUIFER_CLUSTER_PROVIDER", noCluster}, {"AQUIFER_PEER_SECRET", noCluster}},
		},
		{[]string{"AQUIFER_CLUSTER_SELF_ID=a", "AQUIFER_NODE_ID=b"}, []Warning{{"AQUIFER_CLUSTER_SELF_ID", noCluster}}},
		{[]string{"AQUIFER_CLUSTER_SELF_ID=a"}, nil},                                   // it names the node
		{[]string{"AQUIFER_CLUSTER_MEMBERS=", "AQUIFER_CLUSTER_PROVIDER=static"}, nil}, // as if they were not set
		{
			append(slices.Clone(member), "AQUIFER_CLUSTER_JOIN=b", "AQUIFER_CLUSTER_GOSSIP_BIND=:1", "AQUIFER_CLUSTER_MAX_ACTIVE_USERS=7", "AQUIFER_CLUSTER_HEARTBEAT_SECONDS=1"),
			[]Warning{
				{"AQUIFER_CLUSTER_GOSSIP_BIND", "it has no effect unless AQUIFER_CLUSTER_PROVIDER is gossip"},
				{"AQUIFER_CLUSTER_HEARTBEAT_SECONDS", "it has no effect unless AQUIFER_CLUSTER_PROVIDER is valkey"},
				{"AQUIFER_CLUSTER_JOIN", "it has no effect unless AQUIFER_CLUSTER_PROVIDER is gossip"},
				{"AQUIFER_CLUSTER_MAX_ACTIVE_USERS", "it has no effect unless AQUIFER_CLUSTER_PROVIDER is gossip or valkey"},
			},
		},
		{
			append(slices.Clone(gossips), "AQUIFER_CLUSTER_MEMBERS=b=http://b", "AQUIFER_CLUSTER_JOIN=b", "AQUIFER_CLUSTER_MAX_ACTIVE_USERS=7"),
			[]Warning{{"AQUIFER_CLUSTER_MEMBERS", "it has no effect unless AQUIFER_CLUSTER_PROVIDER is static"}},
		},
		{append(slices.Clone(valkeys), "AQUIFER_CLUSTER_VALKEY_URL=valkey://i", "AQUIFER_CLUSTER_MAX_ACTIVE_USERS=7"), nil},
		{
			append(slices.Clone(gossips), "AQUIFER_CLUSTER_VALKEY_URL=valkey://i"),
			[]Warning{{"AQUIFER_CLUSTER_VALKEY_URL", "it has no effect unless AQUIFER_CLUSTER_PROVIDER is valkey"}},
		},
	} {
		_, got, err := FromEnv(tt.environ, "host-1")
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v: got %v, %v, want %v", tt.environ, got, err, tt.want)
		}
	}
}

// Whether a setting has an effect is not said as long as what decides about it is wrong.
func TestIdleSettingsOfABadConfiguration(t *testing.T) {
	for _, bad := range []string{"AQUIFER_CLUSTER_ENABLED=on", "AQUIFER_CLUSTER_PROVIDER=dns"} {
		_, got, err := FromEnv([]string{"AQUIFER_CLUSTER_ENABLED=true", bad, "AQUIFER_CLUSTER_SELF_ADDR=http://a", "AQUIFER_CLUSTER_JOIN=b"}, "host-1")
		if err == nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v", bad, got, err)
		}
	}
}

// What is printed of a node in no cluster can be its environment without a warning, and so can that of any member.
func TestPrintedSettingsAreNotIdle(t *testing.T) {
	for _, environ := range [][]string{
		{"AQUIFER_VALKEY_URL=valkey://h", "AQUIFER_NODE_ID=n"},
		{"AQUIFER_VALKEY_URL=valkey://h", "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_SELF_ADDR=http://a:8080"},
	} {
		c := mustConfig(t, environ...)
		var out bytes.Buffer
		if err := c.Print(&out); err != nil {
			t.Fatal(err)
		}
		mustConfig(t, strings.Split(strings.TrimSpace(out.String()), "\n")...)
	}
}

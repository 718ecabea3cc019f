package node

import (
	"path/filepath"
	"strings"
	"testing"
)

// What keeps the node from asking its Valkey is told before it starts, once, whoever would ask it.
func TestValkeyConfigProblems(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "ca.pem")
	const overTLS, plain = "AQUIFER_VALKEY_URL=valkeys://h:1", "AQUIFER_VALKEY_URL=valkey://h:1"
	ca := "AQUIFER_VALKEY_CA_FILE=" + absent
	member := []string{
		"AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_PROVIDER=valkey", "AQUIFER_CLUSTER_SELF_ADDR=http://a:8080",
	}
	remembers := []string{"AQUIFER_REMOTE_RESULT_ENABLED=true"}
	for _, tt := range []struct {
		uses []string
		set  []string
		says string
	}{
		{member, []string{overTLS, ca}, "AQUIFER_VALKEY_CA_FILE: CA file of Valkey: open " + absent + ": no such file or directory"},
		{remembers, []string{overTLS, ca}, "AQUIFER_VALKEY_CA_FILE: CA file of Valkey: open " + absent + ": no such file or directory"},
		{append(remembers, member...), []string{plain, ca}, "AQUIFER_VALKEY_CA_FILE: a CA file needs a Valkey URL that begins with rediss:// or valkeys://"},
		{
			append(remembers, member...), []string{plain, "AQUIFER_CLUSTER_VALKEY_URL=valkeys://h:2", ca},
			"AQUIFER_VALKEY_CA_FILE: CA file of Valkey: open " + absent + ": no such file or directory",
		},
		{member, []string{plain, "AQUIFER_VALKEY_HASHTAG={a}"}, `AQUIFER_VALKEY_HASHTAG: the hash tag of Valkey keys must not contain { or }, got "{a}"`},
		{remembers, []string{"AQUIFER_VALKEY_URL=valkey://h?master_set="}, "AQUIFER_VALKEY_URL: master_set of the Valkey URL must name what the Sentinels watch, or not be there"},
	} {
		_, _, err := FromEnv(append(tt.set, tt.uses...), "host-1")
		if err == nil || err.Error() != "the configuration is not valid:\n  "+tt.says {
			t.Errorf("%v: got %v, want %s", tt.set, err, tt.says)
		}
	}
	mustConfig(t, overTLS, ca) // of a Valkey that nobody asks
}

// What is printed is in force: a sign of life lives for three heartbeats at least.
func TestPrintedInstanceTTL(t *testing.T) {
	var out strings.Builder
	c := mustConfig(t, "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_PROVIDER=valkey", "AQUIFER_CLUSTER_SELF_ADDR=http://a:8080",
		"AQUIFER_VALKEY_URL=valkey://h", "AQUIFER_CLUSTER_HEARTBEAT_SECONDS=20")
	if err := c.Print(&out); err != nil || !strings.Contains(out.String(), "\nAQUIFER_CLUSTER_INSTANCE_TTL_SECONDS=60\n") {
		t.Errorf("%v, printed %s", err, &out)
	}
	if c := mustConfig(t); c.Cluster.InstanceTTLSecs != 15 {
		t.Errorf("by default %d s", c.Cluster.InstanceTTLSecs)
	}
}

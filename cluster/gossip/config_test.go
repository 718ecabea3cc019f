package gossip_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
)

func TestNewNamesEverythingThatIsWrong(t *testing.T) {
	_, err := gossip.New(gossip.Config{
		Self: cluster.Member{ID: "a b"}, Bind: "somewhere:7946", Advertise: "x:y:z", Join: []string{"good", "bad/name"}, Keys: [][]byte{key, {1}},
	}, gossip.Deps{})
	for _, part := range []string{
		"node id must be", `gossip bind must be ip:port or :port, got "somewhere:7946"`, `gossip advertise: address must be host or host:port, got "x:y:z"`,
		`join: address must be host or host:port, got "bad/name"`, "gossip key 2 must have 16, 24 or 32 bytes, got 1",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// What the others would call in vain is refused, where a name, or an address of this machine alone, may be right.
func TestCheckAdvertise(t *testing.T) {
	for _, good := range []string{"", "node-1", "node_1:7946", "10.0.0.1", "10.0.0.1:7946", "[fdaa::3]:7946", "127.0.0.1:7946"} {
		if err := gossip.CheckAdvertise(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"0.0.0.0", "0.0.0.0:7946", "[::]:7946", "::", "[::ffff:0.0.0.0]:7946", "224.0.0.1:7946", "[ff02::1]:7946", "255.255.255.255:7946", "*:7946",
	} {
		want := `gossip advertise: address must have a host that other nodes can call, got "` + bad + `"`
		if err := gossip.CheckAdvertise(bad); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", bad, err, want)
		}
	}
}

func TestNewRefusesMoreThanFitsIntoGossip(t *testing.T) {
	m := member("a", 1)
	m.Version = strings.Repeat("v", 500)
	if _, err := gossip.New(gossip.Config{Self: m}, gossip.Deps{}); err == nil || !strings.Contains(err.Error(), "512 bytes") {
		t.Error(err)
	}
}

func TestParseKeys(t *testing.T) {
	long, short := base64.StdEncoding.EncodeToString(key), base64.StdEncoding.EncodeToString(key[:16])
	keys, err := gossip.ParseKeys(" " + long + ",\n" + short + ",")
	if err != nil || len(keys) != 2 || len(keys[0]) != 32 || len(keys[1]) != 16 {
		t.Errorf("%v, %v", keys, err)
	}
	if keys, err := gossip.ParseKeys(""); keys != nil || err != nil {
		t.Errorf("%v, %v", keys, err)
	}
	secret := base64.StdEncoding.EncodeToString([]byte("not long enough"))
	_, err = gossip.ParseKeys(long + ",*" + secret + "," + secret)
	if err == nil || err.Error() != "gossip key 2 must be in base64\ngossip key 3 must have 16, 24 or 32 bytes, got 15" {
		t.Error(err)
	}
}

func TestParseJoin(t *testing.T) {
	got, err := gossip.ParseJoin("fleet.internal, 10.0.0.1:7947,fdaa::3,[fdaa::3]:7946")
	if err != nil || len(got) != 4 {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"a:b", "a:0", "a:70000", ":7946", "http://a", "a/b", "a@b", "[fdaa::3]x"} {
		if _, err := gossip.ParseJoin("good," + bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

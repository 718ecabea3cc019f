package cluster_test

import (
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

func TestStaticConforms(t *testing.T) {
	clustertest.Conform(t, clustertest.Provider{Fixed: true, Bubble: true, New: func(_ *testing.T, members []cluster.Member) clustertest.Cluster {
		return fixed(members)
	}})
}

// fixed is a cluster of the members that are listed everywhere.
type fixed []cluster.Member

func (f fixed) Start(t *testing.T, m cluster.Member) cluster.View {
	v, err := cluster.NewStatic(m, f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (fixed) Leave(*testing.T, string) {}
func (fixed) Kill(*testing.T, string)  {}

func TestStaticWeighsAllAlike(t *testing.T) {
	members := []cluster.Member{{ID: "a", Address: "http://a"}, {ID: "b", Address: "http://b", Capacity: 7}}
	v, err := cluster.NewStatic(cluster.Member{ID: "a", Address: "http://a", State: cluster.Active, Capacity: 500}, members)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range v.Roster().Members {
		if m.Weight() != cluster.DefaultCapacity {
			t.Errorf("%s weighs %d", m.ID, m.Weight())
		}
	}
}

func TestStaticRefusesUnusableMembers(t *testing.T) {
	_, err := cluster.NewStatic(cluster.Member{ID: "a"}, []cluster.Member{{ID: "b,c", Address: "http://b"}, {ID: "d", Address: "d:80"}})
	for _, part := range []string{"member a: node address", `got "b,c"`, "member d: node address"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func TestStaticRefusesAnotherSelf(t *testing.T) {
	self := cluster.Member{ID: "a", Address: "http://a/", State: cluster.Active}
	for want, listed := range map[string]cluster.Member{
		"member a is this node, whose address is http://a, got http://b": {ID: "a", Address: "http://b"},
		"member b has the address of this node, http://a, which is a":    {ID: "b", Address: "http://a"},
	} {
		if _, err := cluster.NewStatic(self, []cluster.Member{listed}); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", listed, err, want)
		}
	}
	if _, err := cluster.NewStatic(self, []cluster.Member{{ID: "a", Address: "http://a"}, {ID: "b", Address: "http://b"}}); err != nil {
		t.Error(err)
	}
}

func TestParseMembers(t *testing.T) {
	got, err := cluster.ParseMembers(" a=http://10.0.0.1:8080/ ,, b=https://[fd00::1]:8443,c=http://c,")
	if err != nil {
		t.Fatal(err)
	}
	want := []cluster.Member{
		{ID: "a", Address: "http://10.0.0.1:8080", State: cluster.Active},
		{ID: "b", Address: "https://[fd00::1]:8443", State: cluster.Active},
		{ID: "c", Address: "http://c", State: cluster.Active},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestParseMembersNamesEveryFault(t *testing.T) {
	for entry, rule := range map[string]string{
		"a":                                    "id=http://host:port",
		"=http://a":                            "1 to 128 characters",
		"a b=http://a":                         "visible ASCII",
		"ä=http://a":                           "visible ASCII",
		"a=a:80":                               "http:// or https://",
		"a=ftp://a":                            "http:// or https://",
		"a=http://":                            "must have a host",
		"a=http://:80":                         "must have a host",
		"a=http://u:secret@a":                  "nothing but scheme, host and port",
		"a=http://u:secret@a:port":             "must be a URL",
		"a=ftp://u:secret@a":                   "http:// or https://",
		"u:secret@a":                           "id=http://host:port",
		"a=http://a/path":                      "nothing but scheme, host and port",
		"a=http://a?":                          "nothing but scheme, host and port",
		"a=http://a#x":                         "nothing but scheme, host and port",
		"a=http://a:port":                      "must be a URL",
		"x=http://y":                           "stands there twice",
		"y=http://x/":                          "the address http://x is that of x, too",
		strings.Repeat("i", 129) + "=":         "1 to 128 characters",
		"a=http://" + strings.Repeat("h", 512): "at most 512 characters",
	} {
		got, err := cluster.ParseMembers("x=http://x," + entry + ",bad")
		if err == nil || !strings.Contains(err.Error(), rule) || !strings.Contains(err.Error(), `member "bad"`) {
			t.Errorf("%.40s: got %v, want both faults", entry, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", entry, err)
		}
		if len(got) != 1 {
			t.Errorf("%.40s: took %+v", entry, got)
		}
	}
}

func FuzzParseMembers(f *testing.F) {
	f.Add("a=http://10.0.0.1:8080/,b=https://[fd00::1]:8443")
	f.Add("a=http://a,a=http://a")
	f.Add("=,==,a=")
	f.Fuzz(func(t *testing.T, list string) {
		members, _ := cluster.ParseMembers(list)
		for _, m := range members {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
			if again, err := cluster.ParseAddress(m.Address); err != nil || again != m.Address {
				t.Errorf("%q became %q, %v", m.Address, again, err)
			}
		}
	})
}

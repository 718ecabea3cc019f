package node

import (
	"slices"
	"testing"
)

// Hosts are the same in any case. Keys, secrets and ids are not, and stay as they were written.
func TestListsKeepTheirCase(t *testing.T) {
	c, _, err := FromEnv([]string{
		"AQUIFER_ALLOWED_URL_DOMAINS=API.example.com, B.test", "AQUIFER_ALLOWED_WEBHOOK_DOMAINS=APP.example.com", "AQUIFER_EGRESS_ALLOW=Inner.test",
		"AQUIFER_CLUSTER_MEMBERS=Node-A=http://a.test,Node-B=http://b.test", "AQUIFER_CLUSTER_GOSSIP_KEY=QUJDREVGR0hJSktMTU5PUA==",
		"AQUIFER_PEER_SECRET=Aa0123456789bcdef,Bb0123456789bcdef",
	}, "host")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []struct{ got, want []string }{
		{c.AllowedURLDomains, []string{"api.example.com", "b.test"}},
		{c.AllowedWebhookDomains, []string{"app.example.com"}},
		{c.EgressAllow, []string{"inner.test"}},
		{c.Cluster.Members, []string{"Node-A=http://a.test", "Node-B=http://b.test"}},
		{c.Cluster.GossipKey, []string{"QUJDREVGR0hJSktMTU5PUA=="}},
		{c.Cluster.PeerSecret, []string{"Aa0123456789bcdef", "Bb0123456789bcdef"}},
	} {
		if !slices.Equal(list.got, list.want) {
			t.Errorf("%q, want %q", list.got, list.want)
		}
	}
}

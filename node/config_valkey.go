package node

import (
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
)

// valkeyProblems lists what keeps the node from asking the Valkeys that it uses, beside what is wrong with their URLs.
func (c *Config) valkeyProblems() []Problem {
	var list []Problem
	var used []string
	if c.Cluster.Enabled && c.Cluster.Provider == providerValkey {
		used = append(used, c.Cluster.ValkeyURL)
		if err := valkey.CheckHashTag(c.Valkey.HashTag); err != nil {
			list = append(list, Problem{Name: "AQUIFER_VALKEY_HASHTAG", Err: err})
		}
	}
	if c.shares() {
		used = append(used, c.Valkey.URL)
	}
	for _, url := range used {
		if link.Check(url) != nil {
			continue // that has been told
		}
		if err := (link.Target{URL: url, CAFile: c.Valkey.CAFile}).Check(); err != nil {
			return append(list, Problem{Name: "AQUIFER_VALKEY_CA_FILE", Err: err})
		}
	}
	return list
}

package node

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// idle warns of settings of a cluster that have no effect as the node is configured. One that says what holds anyway is
// none of them, so that what Print writes can be an environment. Nothing is said while what decides about it is wrong.
func (c *Config) idle(vars map[string]string, problems []Problem) []Warning {
	if slices.ContainsFunc(problems, func(p Problem) bool {
		return p.Name == "AQUIFER_CLUSTER_ENABLED" || p.Name == "AQUIFER_CLUSTER_PROVIDER"
	}) {
		return nil
	}
	var list []Warning
	for _, s := range leaves(reflect.ValueOf(&c.Cluster).Elem(), "") {
		why := c.Cluster.without(s.name)
		if why == "" || vars[s.name] == "" || vars[s.name] == s.fallback || c.saysTheSame(s) {
			continue
		}
		list = append(list, Warning{Name: s.name, Text: "it has no effect unless " + why})
	}
	slices.SortFunc(list, func(a, b Warning) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// without says what a setting of a cluster needs and does not have; "" if it has an effect.
func (c ClusterConfig) without(name string) string {
	if name == "AQUIFER_CLUSTER_ENABLED" || name == "FLY_REGION" {
		return ""
	}
	if !c.Enabled {
		return "AQUIFER_CLUSTER_ENABLED is true"
	}
	needed := providersOf(name)
	if needed == "" || strings.Contains(needed, c.Provider) {
		return ""
	}
	return "AQUIFER_CLUSTER_PROVIDER is " + needed
}

// providersOf names the providers of membership that a setting is for; "" if it is for all.
func providersOf(name string) string {
	switch name {
	case "AQUIFER_CLUSTER_MEMBERS":
		return providerStatic
	case "AQUIFER_CLUSTER_MAX_ACTIVE_USERS": // members of a list all weigh the same
		return providerGossip + " or " + providerValkey
	case "AQUIFER_CLUSTER_JOIN", "AQUIFER_CLUSTER_GOSSIP_BIND", "AQUIFER_CLUSTER_GOSSIP_ADVERTISE", "AQUIFER_CLUSTER_GOSSIP_KEY":
		return providerGossip
	case "AQUIFER_CLUSTER_VALKEY_URL", "AQUIFER_CLUSTER_VALKEY_PREFIX", "AQUIFER_CLUSTER_VALKEY_TIMEOUT_MS",
		"AQUIFER_CLUSTER_HEARTBEAT_SECONDS", "AQUIFER_CLUSTER_INSTANCE_TTL_SECONDS", "AQUIFER_CLUSTER_ASSIGNMENT_IDLE_SECONDS":
		return providerValkey
	}
	return ""
}

// saysTheSame reports whether a setting is what it would be by another one.
func (c *Config) saysTheSame(s setting) bool {
	switch s.name {
	case "AQUIFER_CLUSTER_SELF_ID":
		return c.Cluster.SelfID == c.NodeID
	case "AQUIFER_CLUSTER_VALKEY_URL":
		return c.Cluster.ValkeyURL == c.Valkey.URL
	}
	return false
}

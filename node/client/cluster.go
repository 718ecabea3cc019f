package client

import (
	"context"
	"net/http"
	"net/url"
)

// Cluster is what a node knows of its cluster, and in JSON again in the node's own form.
type Cluster struct {
	Self    Member   `json:"self"`
	Members int      `json:"members"`
	Nodes   []Member `json:"nodes"` // in ascending order of ids, Self among them
	// Algorithm is the way in which owners are chosen, and Provider how nodes know of each other.
	Algorithm string `json:"algorithm"`
	Provider  string `json:"provider"`
	State     string `json:"state"` // of Self
	// ActiveUsers and UserCapacity are those of Self.
	ActiveUsers  int    `json:"active_users"`
	UserCapacity int    `json:"user_capacity"`
	Unsettled    string `json:"unsettled,omitzero"` // why the node does not know its cluster yet, or is not believed there
	// StaleSince is since when the node goes on with what it knew then, in Unix ms; 0 if it learns of the others.
	StaleSince int64 `json:"stale_since,omitzero"`
	// PruneTTLSeconds is how long a member that could not be reached is passed over, as PrunedIDs are now.
	PruneTTLSeconds      int      `json:"prune_ttl_seconds"`
	PrunedMembers        int      `json:"pruned_members"`
	PrunedIDs            []string `json:"pruned_ids,omitzero"`
	CoordinationFailures int64    `json:"coordination_failures"`
}

// Member is a node of a cluster, as it was last heard of.
type Member struct {
	ID           string `json:"id"`
	Address      string `json:"address,omitzero"`
	Region       string `json:"region,omitzero"`
	State        string `json:"state,omitzero"` // active, draining or offline
	UserCapacity int    `json:"user_capacity,omitzero"`
	ActiveUsers  int    `json:"active_users,omitzero"`
	Version      string `json:"version,omitzero"`
}

// Owner is the node that answers for a tenant.
type Owner struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Local   bool   `json:"local"` // it is the node that was asked
}

// Owner asks which node answers for a tenant now. A node that is in no cluster answers not_found.
func (c *Client) Owner(ctx context.Context, userID string) (Owner, error) {
	var o Owner
	_, err := c.call(ctx, request{method: http.MethodGet, path: "/cluster/owner", query: url.Values{"user_id": {userID}}}, &o)
	return o, err
}

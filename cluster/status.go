package cluster

// Names of the ways to choose an owner, as GET /health has them.
const (
	rendezvous        = "rendezvous"
	boundedRendezvous = "bounded-load-rendezvous"
)

// Status is what a node says of its cluster in GET /health.
type Status struct {
	Self Member `json:"self"`
	// Members is how many members there are, this node among them, and Nodes are they.
	Members int      `json:"members"`
	Nodes   []Member `json:"nodes"`
	// Algorithm is the way in which owners are chosen.
	Algorithm string `json:"algorithm"`
	// Provider is the name of the provider, for the caller to fill in.
	Provider string `json:"provider"`
	State    State  `json:"state"`
	// ActiveUsers and UserCapacity are those of this node.
	ActiveUsers  int `json:"active_users"`
	UserCapacity int `json:"user_capacity"`
	// Unsettled says why the node does not know its cluster yet, or why the others do not believe it; empty if all is well.
	Unsettled string `json:"unsettled,omitempty"`
	// StaleSince is since when the node cannot learn anything new and goes on with what it knew then, in Unix ms; absent
	// if it can.
	StaleSince      int64 `json:"stale_since,omitempty"`
	PruneTTLSeconds int   `json:"prune_ttl_seconds"`
	// PrunedMembers is how many members are passed over, and PrunedIDs are they.
	PrunedMembers int      `json:"pruned_members"`
	PrunedIDs     []string `json:"pruned_ids,omitempty"`
	// CoordinationFailures is how often the provider could not reach what the nodes share, for the
	// caller to fill in.
	CoordinationFailures int64 `json:"coordination_failures"`
}

// Status returns how things are now.
func (o *Owners) Status() Status {
	r, pruned := o.fields.view.Roster(), o.Pruned()
	s := Status{
		Self: r.Self, Members: len(r.Members), Nodes: r.Members, Algorithm: rendezvous, State: r.Self.State,
		ActiveUsers: r.Self.ActiveTenants, UserCapacity: r.Self.Weight(), Unsettled: text(o.unsettled(r)),
		PruneTTLSeconds: int(o.pruned.ttl.Seconds()), PrunedMembers: len(pruned), PrunedIDs: pruned,
	}
	if !r.Stale.IsZero() {
		s.StaleSince = r.Stale.UnixMilli()
	}
	if o.placement != nil {
		s.Algorithm = boundedRendezvous
	}
	return s
}

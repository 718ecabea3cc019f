package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Placement lets a provider have a say in who owns a tenant, for instance to keep members from being
// loaded beyond their capacity. A Placement is safe for concurrent use.
type Placement interface {
	// Place returns the owner of key. rank gives the members that may own it, the best first; it
	// costs a few hashes. Place returns false when it cannot tell in the little time that it takes
	// for itself; the first of the ranked is the owner then.
	Place(ctx context.Context, key string, rank func() []Member) (Member, bool)
	// Release gives up that owner has key, because it could not be reached, drains or takes no work. It must come
	// before the next Place, which would name the same owner again.
	Release(ctx context.Context, key, owner string)
}

// Owner is who owns a tenant.
type Owner struct {
	Member
	// Local: it is this node.
	Local bool
}

// ErrNobody tells that no member is left that may own a tenant: all drain, or were tried.
var ErrNobody = errors.New("no node of the cluster can take this")

// UnsettledError tells that this node does not know well enough who is there to say who owns a tenant, or that the others
// do not believe it.
type UnsettledError struct{ Err error }

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("the node does not know its cluster yet: %v", e.Err)
}

// Unwrap returns why.
func (e *UnsettledError) Unwrap() error { return e.Err }

// OwnersConfig is what Owners are built from.
type OwnersConfig struct {
	// View is required.
	View View
	// Placement may override the ranking; nil for none.
	Placement Placement
	// PruneTTL is how long a member that could not be reached is passed over, unless it shows a sign
	// of life before; 0 means 30 s. A lower value finds a member that is back sooner; a higher one
	// spares callers the wait for one that is not. It is also how long a member that has gone from
	// the view without a word is still tried first.
	PruneTTL time.Duration
	// Sealed: the node owns nothing before the other members were asked whether they believe its seal, nor while they do
	// not. A Forwarder that runs asks them.
	Sealed bool
}

const defaultPruneTTL = 30 * time.Second

// Owners tells who owns a tenant. It is safe for concurrent use.
type Owners struct {
	placement Placement
	fields    fields
	firsts    firsts
	pruned    pruned
	standing  standing
}

// NewOwners returns the owners of the tenants of a view.
func NewOwners(c OwnersConfig) *Owners {
	if c.PruneTTL == 0 {
		c.PruneTTL = defaultPruneTTL
	}
	o := &Owners{
		placement: c.Placement, fields: fields{view: c.View, grace: c.PruneTTL}, pruned: newPruned(c.PruneTTL),
	}
	if o.standing.heeded = c.Sealed; c.Sealed {
		o.standing.set(errUnasked)
	}
	return o
}

// Unsettled says why this node owns and forwards nothing now, and is not ready; nil if it is.
func (o *Owners) Unsettled() error { return o.unsettled(o.fields.view.Roster()) }

func (o *Owners) unsettled(r *Roster) error {
	if r.Unsettled != nil {
		return r.Unsettled
	}
	return o.standing.lost()
}

// Of returns the owner of a routing key: the first of Rank that is neither among tried, the ids that
// were found unable to take it, nor pruned. A member that has just gone from the view is ranked as if
// it were there, and a pruned one is better than none. The owner of an empty key is this node. The
// error is ErrNobody or an *UnsettledError.
func (o *Owners) Of(ctx context.Context, key string, tried []string) (Owner, error) {
	f := o.fields.now()
	if key == "" {
		return Owner{f.roster.Self, true}, nil
	}
	if why := o.unsettled(f.roster); why != nil {
		return Owner{}, &UnsettledError{why}
	}
	if o.placement != nil {
		rank := func() []Member { return o.rank(f, key, tried) }
		if m, ok := o.placement.Place(ctx, key, rank); ok && !slices.Contains(tried, m.ID) {
			return f.owner(m), nil
		}
	}
	if len(tried) == 0 {
		m, ok := o.firsts.of(f, key)
		if !ok {
			return Owner{}, ErrNobody
		}
		if !o.pruned.has(m) {
			return f.owner(m), nil
		}
	}
	ranked := o.rank(f, key, tried)
	if len(ranked) == 0 {
		return Owner{}, ErrNobody
	}
	return f.owner(ranked[0]), nil
}

// Successor returns the owner of a routing key as Of does without tried, the ids of members that do not take the work of
// its tenant now. A Placement that names one of them for the owner gives that up, so that all nodes hear of the
// successor. None of them is passed over because of that: they may go on with all else.
func (o *Owners) Successor(ctx context.Context, key string, tried []string) (Owner, error) {
	owner, err := o.Of(ctx, key, nil)
	if err != nil || !slices.Contains(tried, owner.ID) {
		return owner, err
	}
	next, err := o.Of(ctx, key, tried)
	if err != nil || o.placement == nil {
		return next, err
	}
	o.placement.Release(ctx, key, owner.ID)
	return o.Of(ctx, key, tried)
}

// Others reports whether a member besides this node may own anything, also if it is passed over now.
func (o *Owners) Others() bool {
	f := o.fields.now()
	return o.unsettled(f.roster) == nil && slices.ContainsFunc(f.members, func(m Member) bool {
		return m.State == Active && m.ID != f.roster.Self.ID
	})
}

// rank is Rank without those that were tried, and with the pruned ones last.
func (o *Owners) rank(f *field, key string, tried []string) []Member {
	ranked := slices.DeleteFunc(Rank(f.members, key), func(m Member) bool { return slices.Contains(tried, m.ID) })
	out := o.pruned.ids(f)
	last := func(m Member) int {
		if slices.Contains(out, m.ID) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ranked, func(a, b Member) int { return last(a) - last(b) })
	return ranked
}

func (f *field) owner(m Member) Owner { return Owner{m, m.ID == f.roster.Self.ID} }

// Prune passes over a member for a while, because it could not be reached or says that it drains, and
// gives up that it has key, if that is not empty. It returns whether the member was not passed over before.
func (o *Owners) Prune(ctx context.Context, id, key string) (fresh bool) {
	if m, ok := o.fields.now().member(id); ok {
		fresh = o.pruned.add(m)
	}
	if o.placement != nil && key != "" {
		o.placement.Release(ctx, key, id)
	}
	return fresh
}

// Heard notes a sign of life of a member, which ends that it is passed over.
func (o *Owners) Heard(id string) {
	o.pruned.remove(id)
	o.fields.heard(id)
}

// Pruned returns the ids of the members that are passed over now, in ascending order.
func (o *Owners) Pruned() []string { return o.pruned.ids(o.fields.now()) }

// doubtful are the members that are passed over, and those that are missing and not passed over.
func (o *Owners) doubtful() (out, gone []Member) {
	f := o.fields.now()
	pruned := o.pruned.ids(f)
	for _, id := range pruned {
		if m, ok := f.member(id); ok {
			out = append(out, m)
		}
	}
	for _, m := range f.missing {
		if !slices.Contains(pruned, m.member.ID) {
			gone = append(gone, m.member)
		}
	}
	return out, gone
}

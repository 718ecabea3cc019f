package node

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// membership is the node's place in its cluster; nil for a node that is in none.
type membership struct {
	view      cluster.View
	placement cluster.Placement     // nil: the ranking alone decides
	failures  func() int64          // of what the nodes share; nil: they share nothing
	assent    func() cluster.Assent // to members that have lost that; nil: they share nothing
	learning  time.Duration         // how long the others may take to learn of the node
	// provider keeps the view fresh until its context ends.
	provider  func(context.Context) error
	name      string // of the provider
	owners    *cluster.Owners
	forwarder *cluster.Forwarder
	sharers   *cluster.Sharers
	seal      cluster.Seal
	peers     *egress.Client
}

// newMembership returns the place that the configuration gives the node, which works for whom w tells.
func (n *Node) newMembership(w *working) (*membership, error) {
	c := n.cfg.Cluster
	if !c.Enabled {
		return nil, nil //nolint:nilnil // a node that is alone has none
	}
	m := &membership{name: c.Provider}
	var err error
	if m.seal, err = cluster.NewSeal(c.SelfID, c.PeerSecret...); err != nil {
		return nil, err
	}
	if !m.seal.Enforced() {
		n.deps.Logger.Warn("AQUIFER_PEER_SECRET is not set: whoever reaches this node can speak for another one")
	}
	if err := n.see(m, w); err != nil {
		return nil, err
	}
	// Peers may be anywhere, also where jobs must not be sent to.
	if m.peers, err = egress.New(egress.Config{Dial: n.deps.Dial, DialTimeout: connecting, MaxIdleConns: n.idleConns()}); err != nil {
		return nil, err
	}
	m.owners = cluster.NewOwners(cluster.OwnersConfig{
		View: m.view, Placement: m.placement, PruneTTL: c.PruneTTL(), Sealed: m.seal.Enforced(),
	})
	m.sharers = cluster.NewSharers(cluster.SharersConfig{Owners: m.owners, Learning: m.learning, Registerer: n.deps.Registry})
	m.forwarder = cluster.NewForwarder(cluster.ForwarderConfig{
		Owners: m.owners, Transport: exchange{m.peers}, Unsent: unsent, Seal: m.seal, AnswerTimeout: n.answering(),
		Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
	return m, nil
}

// see makes the view of the membership.
func (n *Node) see(m *membership, w *working) error {
	switch n.cfg.Cluster.Provider {
	case providerGossip:
		return n.seeByGossip(m, w)
	case providerValkey:
		return n.seeInValkey(m, w)
	}
	listed, err := n.cfg.Cluster.members()
	if err != nil {
		return err
	}
	if self := n.cfg.Cluster.SelfID; !slices.ContainsFunc(listed, func(m cluster.Member) bool { return m.ID != self }) {
		n.deps.Logger.Warn("AQUIFER_CLUSTER_MEMBERS names no other node: this one is a cluster of its own")
	}
	m.view, err = cluster.NewStatic(n.cfg.Cluster.self(), listed)
	m.provider = func(context.Context) error { return nil }
	return err
}

func (n *Node) seeByGossip(m *membership, w *working) error {
	c := n.cfg.Cluster
	keys, err := c.keys()
	if err != nil {
		return err
	}
	v, err := gossip.New(gossip.Config{
		Self: c.self(), Bind: c.GossipBind, Advertise: c.GossipAdvertise, Join: c.Join, Keys: keys, Load: w.users,
	}, gossip.Deps{Network: n.deps.Gossip, Logger: n.deps.Logger, Registerer: n.deps.Registry})
	if err != nil {
		return err
	}
	m.view, m.provider, m.learning = v, v.Run, spreading
	return nil
}

func (n *Node) seeInValkey(m *membership, w *working) error {
	c := n.cfg.Cluster
	l, err := link.New(link.Config{
		Target:  link.Target{URL: c.ValkeyURL, CAFile: n.cfg.Valkey.CAFile},
		Timeout: milliseconds(c.ValkeyTimeoutMS), Logger: n.deps.Logger,
	})
	if err != nil {
		return err
	}
	v, err := valkey.New(valkey.Config{
		Self: c.self(), Link: l, Prefix: c.ValkeyPrefix, HashTag: n.cfg.Valkey.HashTag,
		Heartbeat: seconds(c.HeartbeatSecs), TTL: seconds(c.InstanceTTLSecs), Idle: seconds(c.IdleSecs),
		Ask: func(ctx context.Context, peer cluster.Member) (cluster.Assent, error) {
			return m.forwarder.AskAssent(ctx, peer)
		},
		Busy: w.on, Work: w.all, Load: w.users, Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
	if err != nil {
		l.Close()
		return err
	}
	m.view, m.placement, m.failures, m.assent = v, v, v.Failures, v.Assent
	m.learning = 2 * seconds(c.HeartbeatSecs) // one of the others' beats may be lost
	m.provider = func(ctx context.Context) error {
		defer l.Close()
		return v.Run(ctx)
	}
	return nil
}

// spreading is how long it takes gossip to come to all members, and more.
const spreading = 5 * time.Second

// nodes is how many nodes divide what they share; 0: that is not known.
func (m *membership) nodes() int {
	if m == nil {
		return 1
	}
	return m.sharers.Known()
}

// run keeps the view fresh and looks after members that are in doubt, until ctx ends. divide hears how many nodes divide
// what they share.
func (m *membership) run(ctx context.Context, divide func(nodes int)) error {
	if m == nil {
		return nil
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return m.provider(ctx) })
	all.Go(func() error { return m.forwarder.Run(ctx) })
	all.Go(func() error { return m.sharers.Run(ctx, divide) })
	return all.Wait()
}

// connecting bounds how long a call waits for a connection to its tenant's owner before it goes to the next one.
const connecting = 5 * time.Second

// answering bounds how long a call waits for the first word of its tenant's owner: 10 s, longer only if the owner may try its
// target for more than 3 s.
func (n *Node) answering() time.Duration {
	return max(10*time.Second, n.cfg.Proxy.DirectTimeout()+7*time.Second)
}

// announcing bounds how long a node that stops waits for the others to be told.
const announcing = time.Second

// drain says that the node takes no new work. It ends with ctx.
func (m *membership) drain(ctx context.Context) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, announcing)
	defer cancel()
	_ = m.view.Announce(ctx, cluster.Draining) // who is not told is refused and looks elsewhere
}

// ready says whether the node knows its cluster, and is believed there.
func (m *membership) ready() error {
	if m == nil {
		return nil
	}
	if err := m.owners.Unsettled(); err != nil {
		return fault.New(fault.Unavailable, "the node does not know its cluster yet: %v", err)
	}
	return nil
}

// status is what GET /health shows of the cluster; nil for a node that is in none.
func (m *membership) status() any {
	if m == nil {
		return nil
	}
	s := m.owners.Status()
	s.Provider = m.name
	if m.failures != nil {
		s.CoordinationFailures = m.failures()
	}
	return s
}

// gate lets in requests of peers as such, and takes from all others what only peers may say.
func (m *membership) gate(n *Node, next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return cluster.NewGate(m.route(next), cluster.GateConfig{
		Seal: m.seal, MaxBodyBytes: n.cfg.peerBodyBytes(), Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
}

// route adds the way in for members that have lost what the nodes share.
func (m *membership) route(next http.Handler) http.Handler {
	if m.assent == nil {
		return next
	}
	assents := cluster.NewAssents(m.assent)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == cluster.AssentPath {
			assents.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (m *membership) close() {
	if m != nil {
		m.peers.Close()
	}
}

// ToOwner is api.Cluster. The body is copied: it may still be sent when the request has been answered.
func (m *membership) ToOwner(w http.ResponseWriter, r *http.Request, q *job.Request, body []byte) int {
	return m.forwarder.ToOwner(w, r, cluster.Call{
		Key: routingKey(q.Key()), Body: bytes.Clone(body), Header: cluster.Carried(r.Header),
	})
}

// routingKey is what decides about the owner of a job: its user, or for a key that all users share the key.
func routingKey(k job.Key) string {
	if k.Scope == job.ScopeShared {
		return cluster.SharedKey(k.Name)
	}
	return k.UserID
}

// ToHolder is api.Cluster. The id tells which node has accepted the job, and says nothing of whose tenant it is: there is no
// routing key.
func (m *membership) ToHolder(w http.ResponseWriter, r *http.Request, id job.ID) int {
	return m.forwarder.ToHolder(w, r, cluster.Call{Header: cluster.Carried(r.Header), Since: id.Time()},
		func(member string) bool { return job.TagOf(member) == id.NodeTag() })
}

// ToKeyHolder is api.Cluster. The owner of the key is the likeliest to know it; before, it may have been another node.
func (m *membership) ToKeyHolder(w http.ResponseWriter, r *http.Request, key job.Key) int {
	if cluster.Forwarded(r.Context()) {
		return 0 // no need to find out who the owner is
	}
	route := routingKey(key)
	owner, _ := m.owners.Of(r.Context(), route, nil) // without one, none is likelier
	return m.forwarder.ToHolder(w, r, cluster.Call{Key: route, Header: cluster.Carried(r.Header)},
		func(member string) bool { return member == owner.ID })
}

// unsent tells that the other node has certainly not read the request.
func unsent(err error) bool {
	var e *egress.Error
	return errors.As(err, &e) && !e.Sent
}

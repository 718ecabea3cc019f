package gossip

import (
	"cmp"
	"time"

	"github.com/hashicorp/memberlist"
)

// Tuning are the times of the protocol. A field that is 0 has its default, which keeps a dead member out of the
// views of up to ten or so others within five seconds, and needs some kilobytes a second.
type Tuning struct {
	// Probe is how often a node looks after one other member, in turn; 400 ms. Lower: deaths are noticed
	// sooner; traffic, and false alarms on a machine that is short of CPU, rise. Suspicion is counted in it.
	Probe time.Duration
	// ProbeTimeout is how long a direct answer may take before others are asked and TCP is tried; 200 ms. It
	// should be above what 99 of 100 round trips take, and below Probe. Lower: more detours.
	ProbeTimeout time.Duration
	// Suspicion is how many Probes a suspect has to object, 4; with more than ten members it
	// grows with the logarithm of their number. Higher: fewer live members are taken for dead when
	// packets get lost; a dead one stays in the views longer, and calls to it fail meanwhile.
	Suspicion int
	// Spread is how often news are passed on; 100 ms. Lower: drains and joins are known sooner, traffic rises.
	Spread time.Duration
	// Sync is how often a node compares all it knows with one other member, over TCP; 10 s. Lower: what
	// was lost in spite of Spread is known sooner, traffic rises with the number of members.
	Sync time.Duration
	// Reclaim is how long a member must be dead before its id may come back from another address; 3 s. Lower:
	// a machine that is made again is back sooner; a second node with the id of one that was only cut off
	// takes its place sooner.
	Reclaim time.Duration
	// Patience is how long a node that has addresses to join, and finds nobody there, waits before it goes
	// on alone; 10 s. Higher: a whole cluster that starts at once, or before its name is in the DNS, comes
	// up with fewer nodes that are alone for a while; the first node of all is ready later.
	Patience time.Duration
	// Rejoin is how often the addresses to join are looked up again; 10 s. Lower: the halves of a broken
	// network meet sooner; look-ups, and calls to addresses where nobody is, rise.
	Rejoin time.Duration
	// Leave is how long a node that stops may take to tell the others; 2 s. Without it they find out as
	// if it had died.
	Leave time.Duration
}

func (t Tuning) withDefaults() Tuning {
	return Tuning{
		Probe:        cmp.Or(t.Probe, 400*time.Millisecond),
		ProbeTimeout: cmp.Or(t.ProbeTimeout, 200*time.Millisecond),
		Suspicion:    cmp.Or(t.Suspicion, 4),
		Spread:       cmp.Or(t.Spread, 100*time.Millisecond),
		Sync:         cmp.Or(t.Sync, 10*time.Second),
		Reclaim:      cmp.Or(t.Reclaim, 3*time.Second),
		Patience:     cmp.Or(t.Patience, 10*time.Second),
		Rejoin:       cmp.Or(t.Rejoin, 10*time.Second),
		Leave:        cmp.Or(t.Leave, 2*time.Second),
	}
}

const (
	// streamTimeout bounds a full comparison with another member of the region.
	streamTimeout = 3 * time.Second
	// packetSize keeps a packet whole where tunnels take their part of the 1280 bytes that IPv6 grants.
	packetSize = 1200
	// retransmits: each piece of news is sent 6 times the logarithm of the members, since a refutation
	// that is lost costs a live member its place.
	retransmits = 6
	// suspicionGrowth bounds how much longer a suspect has if others do not suspect it too.
	suspicionGrowth = 2
	// slowdown bounds how much less often a node probes that seems to be the sick one itself. Lower: several
	// members that die at once are noticed sooner; a node without CPU accuses more.
	slowdown = 4
	// remembered is how long the dead are still told that they are dead, so that they can object.
	remembered = 30 * time.Second
)

// apply sets the times of memberlist.
func (t Tuning) apply(c *memberlist.Config) {
	c.ProbeInterval, c.ProbeTimeout = t.Probe, t.ProbeTimeout
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = t.Suspicion, suspicionGrowth
	c.AwarenessMaxMultiplier = slowdown
	c.GossipInterval, c.GossipToTheDeadTime = t.Spread, remembered
	c.PushPullInterval, c.DeadNodeReclaimTime = t.Sync, t.Reclaim
	c.TCPTimeout, c.UDPBufferSize, c.RetransmitMult = streamTimeout, packetSize, retransmits
	// Encrypted or small, what is sent does not get smaller.
	c.EnableCompression = false
}

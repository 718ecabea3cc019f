package valkey

import (
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// known are the members as a node knows them, by their ids.
type known map[string]life

// life is one member with what is known of its heartbeat.
type life struct {
	member cluster.Member
	until  time.Time // when its heartbeat ends, at the latest
	// lost: Valkey has lost the heartbeat, maybe before its end. The member counts until then, for it may be
	// there and just has not written another one.
	lost bool
	// left: the heartbeat was taken away before its end, which a member does that leaves. It is remembered until then.
	left bool
}

// learn returns what is known after a beat that was sent at now and is answered. forgot is how long heartbeats live, if
// Valkey has lost the node's own, and so maybe all; else 0. One that was lost may have been much younger than the last one
// that the node saw.
func (k known) learn(members []sighting, forgot time.Duration, now, answered time.Time) known {
	next := make(known, len(members))
	for _, m := range members {
		next[m.ID] = life{member: m.Member, until: now.Add(m.left)}
	}
	for id, l := range k {
		if _, there := next[id]; there {
			continue
		}
		switch {
		case l.left:
		case forgot > 0:
			l.lost, l.until = true, now.Add(forgot)
		case !l.lost:
			l.left = answered.Before(l.until) // or it may have ended while Valkey was asked
		}
		if (l.lost || l.left) && now.Before(l.until) {
			next[id] = l
		}
	}
	return next
}

// members are in no order.
func (k known) members() []cluster.Member {
	list := make([]cluster.Member, 0, len(k))
	for _, l := range k {
		if !l.left {
			list = append(list, l.member)
		}
	}
	return list
}

// left are the ids of those that have left, in no order.
func (k known) left() []string {
	var ids []string
	for id, l := range k {
		if l.left {
			ids = append(ids, id)
		}
	}
	return ids
}

// nextEnd is when the first heartbeat of another member ends, or latest.
func (k known) nextEnd(self string, latest time.Time) time.Time {
	for id, l := range k {
		if id != self && l.until.Before(latest) {
			latest = l.until
		}
	}
	return latest
}

package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// SharedKey is the routing key of a job whose idempotency key is shared by all tenants. That of any
// other job is its tenant's user id, which has no NUL, so the two never meet.
func SharedKey(idempotentKey string) string { return "shared\x00" + idempotentKey }

// Rank returns the active members in the order in which they may own key, the best first.
//
// It is rendezvous hashing: each member gets a score from SHA-256 of its id, ":" and the key, and
// the highest wins, so a member that leaves moves only the keys that it had. If all weights are
// equal, the score is the hash itself, compared as its hexadecimal form is, which is the order of every
// node that speaks the protocol. Otherwise it is w/-ln(u), u being the hash as a fraction of its range
// (Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005): each member is first for a
// share of the keys in proportion to its weight, and a weight that changes moves keys only to or from
// that member. That order of two members of equal weight is the order of their hashes too.
func Rank(members []Member, key string) []Member {
	list := scores(members, key)
	slices.SortFunc(list, func(a, b score) int { return a.compare(&b) })
	ranked := make([]Member, len(list))
	for i, s := range list {
		ranked[i] = members[s.at]
	}
	return ranked
}

// first returns the index of the member that Rank puts first; -1 if none is active.
func first(members []Member, key string) int {
	list := scores(members, key)
	if len(list) == 0 {
		return -1
	}
	best := &list[0]
	for i := range list[1:] {
		if list[i+1].compare(best) < 0 {
			best = &list[i+1]
		}
	}
	return best.at
}

// score is what one member has for a key.
type score struct {
	weighted float64 // 0 if all weights are equal
	hash     [sha256.Size]byte
	id       string
	at       int // index of the member
}

// compare is negative if a ranks before b.
func (a *score) compare(b *score) int {
	return cmp.Or(cmp.Compare(b.weighted, a.weighted), bytes.Compare(b.hash[:], a.hash[:]), cmp.Compare(a.id, b.id))
}

func scores(members []Member, key string) []score {
	list := make([]score, 0, len(members))
	buf := make([]byte, 0, maxID+1+len(key))
	weighted := false
	for i, m := range members {
		if m.State != Active {
			continue
		}
		buf = append(append(append(buf[:0], m.ID...), ':'), key...)
		list = append(list, score{hash: sha256.Sum256(buf), id: m.ID, at: i})
		weighted = weighted || m.Weight() != members[list[0].at].Weight()
	}
	if weighted {
		for i := range list {
			s := &list[i]
			s.weighted = float64(members[s.at].Weight()) / -math.Log(fraction(s.hash))
		}
	}
	return list
}

// fraction is a hash as a number between 0 and 1, and neither of both.
func fraction(hash [sha256.Size]byte) float64 {
	const bits = 52 // so that adding a half is exact
	return (float64(binary.BigEndian.Uint64(hash[:])>>(64-bits)) + 0.5) / (1 << bits)
}

package valkey

import (
	"sync"
	"time"
)

// standing is what a node may do with what it knows.
type standing uint8

const (
	// out: others may have taken over, so what was known counts no more.
	out standing = iota
	// frozen: what was known last holds, and nothing is taken over from anybody.
	frozen
	// fresh: Valkey says who is there, and who owns what.
	fresh
)

// lease is how long a node may rely on what it knows, and the others on what it has told them.
//
// While a node's heartbeat lives in Valkey, nobody takes its tenants over. After that any node may that reaches Valkey. So
// a node that Valkey does not answer asks the others: while none of them reaches it, nobody can take anything over, and all
// go on with what they knew. Who says that it does not reach Valkey promises to take nothing over for as long as that word
// counts, also if Valkey answers in the next moment; so that does not take its word back. Who once had to assume that it
// was replaced stays out until Valkey has answered.
type lease struct {
	ttl  time.Duration // life of a heartbeat
	word time.Duration // how long a member's word counts

	mu       sync.Mutex // guards all below: a word that is given comes before or after an answer of Valkey
	last     time.Time  // when the last beat was sent that Valkey answered; zero: none was
	missed   bool       // Valkey has not answered since
	promised time.Time  // until then this node takes nothing over
	agreed   time.Time  // until then no other node does
	lost     bool       // the node was out, and may be in again after the next answer only
}

func newLease(ttl time.Duration) *lease {
	return &lease{ttl: ttl, word: ttl / MinBeats, missed: true, lost: true}
}

// at is the node's standing now.
func (l *lease) at(now time.Time) standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stand(now)
}

// stand is at; l.mu is held.
func (l *lease) stand(now time.Time) standing {
	alive := now.Before(l.last.Add(l.ttl))
	if !alive && !now.Before(l.agreed) {
		l.lost = true
	}
	switch {
	case l.lost:
		return out
	case !alive || now.Before(l.promised):
		return frozen
	default:
		return fresh
	}
}

// beaten notes that Valkey has answered a beat that was sent at a time. It returns the standing before and after.
func (l *lease) beaten(sent time.Time) (before, after standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	before = l.stand(now)
	l.last, l.missed = sent, false
	l.lost = l.lost && now.Before(l.promised)
	return before, l.stand(now)
}

// miss notes that Valkey has not answered.
func (l *lease) miss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed = true
}

// drop ends that the node is in.
func (l *lease) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.agreed, l.missed, l.lost = time.Time{}, time.Time{}, true, true
}

// promise gives a member the word that this node takes nothing over, unless it reaches Valkey: one beat that gets lost
// is not enough to stop asking it.
func (l *lease) promise(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.missed || now.Sub(l.last) < l.word {
		return false
	}
	l.promised = now.Add(l.word)
	return true
}

// agree notes that all others have given their word, when they were asked at a time.
func (l *lease) agree(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stand(time.Now()) // who was out before that stays out
	l.agreed = asked.Add(l.word)
}

// seeks reports whether the node needs the word of the others: in time before its heartbeat ends.
func (l *lease) seeks(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed && l.stand(now) != out && now.Sub(l.last) >= l.ttl/2
}

// heard is when Valkey was heard of last; zero: never.
func (l *lease) heard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// held is how long the node's own word still binds it; 0: not at all.
func (l *lease) held(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.promised.Sub(now), 0)
}

package valkey

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

const (
	leaseTTL = 15 * time.Second
	word     = 5 * time.Second
)

// leased is a lease in a bubble, and what its test does with it.
type leased struct {
	t *testing.T
	*lease
}

func withLease(t *testing.T, test func(t *testing.T, l leased)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, leased{t, newLease(leaseTTL)}) })
}

func (l leased) is(want standing) {
	l.t.Helper()
	if got := l.at(time.Now()); got != want {
		l.t.Errorf("the standing is %d, want %d", got, want)
	}
}

// beat is one that Valkey answers.
func (l leased) beat(before, after standing) {
	l.t.Helper()
	if b, a := l.beaten(time.Now()); b != before || a != after {
		l.t.Errorf("a beat leads from %d to %d, want %d to %d", b, a, before, after)
	}
}

func TestALeaseEndsWithItsHeartbeat(t *testing.T) {
	withLease(t, func(_ *testing.T, l leased) {
		l.is(out)
		l.beat(out, fresh)
		time.Sleep(leaseTTL - 1)
		l.is(fresh)
		l.beat(fresh, fresh)
		time.Sleep(leaseTTL)
		l.is(out)
		l.beat(out, fresh)
		l.drop()
		l.is(out)
	})
}

func TestOthersProlongALease(t *testing.T) {
	withLease(t, func(t *testing.T, l leased) {
		if l.seeks(time.Now()) {
			t.Error("a node that was never in asks others")
		}
		l.beat(out, fresh)
		l.miss()
		if l.seeks(time.Now()) {
			t.Error("a node asks others at the first failure")
		}
		time.Sleep(leaseTTL - time.Second)
		if !l.seeks(time.Now()) {
			t.Error("a node does not ask others in time")
		}
		for range 10 {
			l.agree(time.Now())
			time.Sleep(word - 1)
			l.is(frozen)
		}
		time.Sleep(time.Nanosecond)
		l.is(out)
		l.agree(time.Now())
		l.is(out) // they may have taken over meanwhile
		if l.seeks(time.Now()) {
			t.Error("a node that is out asks others")
		}
	})
}

func TestAWordIsKept(t *testing.T) {
	withLease(t, func(t *testing.T, l leased) {
		if !l.promise(time.Now()) {
			t.Error("a node that has never reached Valkey says that it does")
		}
		l.beat(out, out)
		if l.promise(time.Now()) {
			t.Error("a node that reaches Valkey gives its word that it does not")
		}
		time.Sleep(word)
		l.beat(out, fresh)
		l.miss()
		if l.promise(time.Now()) {
			t.Error("a node gives its word for one beat that was lost")
		}
		time.Sleep(word)
		if !l.promise(time.Now()) {
			t.Error("a node that does not reach Valkey says that it does")
		}
		l.is(frozen)
		l.beat(frozen, frozen)
		time.Sleep(word)
		l.is(fresh)
		l.beat(fresh, fresh)
	})
}

// TestGoingOnIsToldOnce: the log has where it begins and where it ends, whoever notices first.
func TestGoingOnIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		v := &View{
			Board: cluster.NewBoard(cluster.Member{ID: "a", Address: "http://a:8080", State: cluster.Active}), lease: newLease(leaseTTL),
			cfg: Config{TTL: leaseTTL, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		}
		v.Edit(func(r *cluster.Roster) { r.Unsettled = nil })
		v.lease.beaten(time.Now())
		v.lease.miss()
		time.Sleep(leaseTTL - time.Second)
		v.lease.agree(time.Now())
		time.Sleep(word - time.Second)
		v.mark(time.Now())
		time.Sleep(time.Second)
		if r := v.Roster(); r.Unsettled == nil || !r.Stale.IsZero() { // as a request sees it
			t.Errorf("the roster is %+v", *r)
		}
		v.mark(time.Now())
		for _, line := range []string{"the node goes on with what it knew last", "the node does not go on with what it knew last"} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%q is told %d times:\n%s", line, n, log.String())
			}
		}
	})
}

// TestNobodyTakesOverFromWhoGoesOn plays nodes that lose Valkey and each other at random. Whenever one of them may take
// over what is another's, as it is fresh and the other's heartbeat has ended, that other one is out, and it comes back with
// fresh knowledge only.
func TestNobodyTakesOverFromWhoGoesOn(t *testing.T) {
	wentOn := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := newRegion(seed)
			if broken := r.play(); broken != "" {
				t.Errorf("seed %d: %s", seed, broken)
			}
			wentOn += r.wentOn
		})
	}
	if wentOn < 5_000 {
		t.Errorf("only in %d steps a node has gone on without Valkey", wentOn)
	}
}

const (
	regionSize = 3
	step       = 100 * time.Millisecond
)

// region is nodes as they stand to a Valkey and to each other.
type region struct {
	random *rand.Rand
	leases [regionSize]*lease
	beats  [regionSize]time.Time        // when the heartbeat in Valkey was written
	reach  [regionSize]bool             // whether Valkey is
	cut    [regionSize][regionSize]bool // whether an answer of one does not come to another
	was    [regionSize]standing         // in the step before
	wentOn int                          // steps in which somebody went on without a heartbeat
}

func newRegion(seed uint64) *region {
	r := &region{random: rand.New(rand.NewPCG(seed, 1))}
	for i := range r.leases {
		r.leases[i], r.reach[i] = newLease(leaseTTL), true
	}
	return r
}

func (r *region) play() string {
	for n := range 3000 {
		r.change()
		for i := range r.leases {
			if n%5 == i {
				r.beat(i)
			}
			if n%3 == i {
				r.ask(i)
			}
		}
		if broken := r.check(); broken != "" {
			return fmt.Sprintf("after %d steps %s", n, broken)
		}
		time.Sleep(step)
	}
	return ""
}

// change has something happen every few seconds, to Valkey as a whole or to one node.
func (r *region) change() {
	if r.random.IntN(40) > 0 {
		return
	}
	one, other := r.random.IntN(regionSize), r.random.IntN(regionSize)
	switch r.random.IntN(8) {
	case 0, 1:
		r.reach = [regionSize]bool{}
	case 2:
		r.reach = [regionSize]bool{true, true, true}
	case 3, 4:
		r.reach[one] = !r.reach[one]
	case 5:
		r.cut[one][other] = true
	default:
		r.cut = [regionSize][regionSize]bool{}
	}
}

func (r *region) beat(i int) {
	if !r.reach[i] {
		r.leases[i].miss()
		return
	}
	r.beats[i] = time.Now()
	r.leases[i].beaten(time.Now())
}

// ask asks all others. Their answers come a while later.
func (r *region) ask(i int) {
	l, asked := r.leases[i], time.Now()
	if !l.seeks(asked) {
		return
	}
	agreed := true
	for other, o := range r.leases {
		if other != i && (r.cut[i][other] || !o.promise(time.Now())) {
			agreed = false
		}
	}
	if agreed {
		time.AfterFunc(1+time.Duration(r.random.IntN(12))*step, func() { l.agree(asked) })
	}
}

// check says what is broken; empty if nothing is.
func (r *region) check() string {
	now := time.Now()
	for i, mine := range r.leases {
		was, is := r.was[i], mine.at(now)
		if r.was[i] = is; was == out && is == frozen {
			return fmt.Sprintf("node %d goes on with what it knew before others may have taken over", i)
		}
		if now.Before(r.beats[i].Add(leaseTTL)) || is == out {
			continue
		}
		r.wentOn++
		for other, o := range r.leases {
			if other != i && o.at(now) == fresh {
				return fmt.Sprintf("node %d may take over from node %d, which goes on", other, i)
			}
		}
	}
	return ""
}

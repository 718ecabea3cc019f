package valkey_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// seldom is a node that hears of the others by itself only when a test is over.
func seldom(t *testing.T, s *valkeytest.Server, self cluster.Member) valkey.Config {
	t.Helper()
	c := config(t, s.URL(), self)
	c.Heartbeat, c.TTL = time.Hour, 3*time.Hour
	return c
}

// TestStrangers: who lives and has not been heard of yet gets its share all the same, and is heard of at once.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	ids := []string{"a", "b", "c"}
	var nodes []*node
	for i, id := range ids {
		nodes = append(nodes, start(t, seldom(t, s, member(id, 10))))
		nodes[i].sees(i + 1)
	}
	count := map[string]int{}
	for i := range 25 {
		count[nodes[0].owner(strconv.Itoa(i))]++
	}
	for _, id := range ids {
		if count[id] > 10 || count[id] < 5 {
			t.Errorf("%s has %d of 25 tenants and room for 10: %v", id, count[id], count)
		}
	}
	nodes[0].sees(3)
}

// TestStrangersThatTakeNothing: who drains, or is no member, is waited for by nobody.
func TestStrangersThatTakeNothing(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	n := start(t, seldom(t, f.Server, member("a", 1)))
	n.sees(1)
	f.put("b", "draining", 10, 0)
	f.Do("SADD", "aqueduct:instances", "strange", "silent")
	f.Do("SET", "aqueduct:instance:strange", `{"id":"strange","address":"nowhere","state":"active"}`)
	for i := range 3 {
		if got := n.owner(strconv.Itoa(i)); got != "a" {
			t.Errorf("owner %s", got)
		}
	}
	if got := f.tenants("a"); got != 3 {
		t.Errorf("a has %d tenants", got)
	}
}

// TestStrangerOfAnotherType: what stands in place of a heartbeat and is none, keeps nobody from the others.
func TestStrangerOfAnotherType(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Do("SADD", "aqueduct:instances", "strange")
	s.Do("LPUSH", "aqueduct:instance:strange", "x")
	a, b := start(t, config(t, s.URL(), member("a", 10))), start(t, config(t, s.URL(), member("b", 10)))
	a.sees(2)
	b.sees(2)
	if got, other := a.owner("u"), b.owner("u"); got != other {
		t.Errorf("the owner is %q and %q", got, other)
	}
	if left, _ := s.Do("EXISTS", "aqueduct:instance:strange").AsBool(); !left {
		t.Error("what is not a node's was deleted")
	}
}

// TestStrangerWithoutEnd: the end of a heartbeat that has none is not waited for.
func TestStrangerWithoutEnd(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	n := start(t, seldom(t, f.Server, member("a", 1)))
	n.sees(1)
	f.Do("SADD", "aqueduct:instances", "b")
	f.Do("SET", "aqueduct:instance:b", `{"id":"b","address":"http://b:8080","state":"active","user_capacity":1}`)
	n.owner("u") // by which it hears of b
	n.sees(2)
	f.Do("DEL", "aqueduct:instances")
	time.Sleep(heartbeat)
	if beaten, _ := f.Do("EXISTS", "aqueduct:instances").AsBool(); beaten {
		t.Error("the node asks all the time")
	}
}

// TestOwnerThatIsNew: an owner that is met before it has been heard of is heard of at once.
func TestOwnerThatIsNew(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	n := start(t, seldom(t, f.Server, member("a", 10)))
	n.sees(1)
	n.owner("u")
	keys, _ := f.Do("KEYS", "aqueduct:assignment:*").AsStrSlice()
	n.Release(t.Context(), "u", "a")
	f.put("b", "active", 10, 0)
	f.Do("SET", keys[0], "b")
	if got := n.owner("u"); got != "b" {
		t.Errorf("owner %s", got)
	}
	n.sees(2)
}

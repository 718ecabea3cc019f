package valkey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// TestKeys: what stands in Valkey is what every node that speaks the protocol expects there.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ prefix, tag, want string }{
		"by default":      {"", "", "aqueduct:"},
		"with a prefix":   {"eu", "", "eu:"},
		"with a hash tag": {"eu:", "fleet", "eu:{fleet}:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valkeytest.Start(t)
			c := config(t, s.URL(), member("a", 7))
			c.Prefix, c.HashTag = tt.prefix, tt.tag
			n := start(t, c)
			n.sees(1)
			if got := n.owner("u1"); got != "a" {
				t.Fatalf("owner %q", got)
			}
			// sha256("u1"), as any other tool prints it.
			const hash = "bb82030dbc2bcaba32a90bf2e207a84a856fc5f033b77c480836ab6f77f40f19"
			checkInstance(t, s, tt.want)
			if got := s.Get(tt.want + "assignment:" + hash); got != "a" {
				t.Errorf("the assignment is %q", got)
			}
			set, _ := s.Do("ZRANGE", tt.want+"instance:a:assignments", "0", "-1").AsStrSlice()
			if len(set) != 1 || set[0] != hash {
				t.Errorf("the set has %q", set)
			}
			n.leave()
			if left, _ := s.Do("KEYS", "*instance*").AsStrSlice(); len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func checkInstance(t *testing.T, s *valkeytest.Server, prefix string) {
	t.Helper()
	ids, _ := s.Do("SMEMBERS", prefix+"instances").AsStrSlice()
	if len(ids) != 1 || ids[0] != "a" {
		t.Errorf("instances %q", ids)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(s.Get(prefix+"instance:a")), &got); err != nil {
		t.Fatal(err)
	}
	if got["reported_at"] == nil || got["id"] != "a" || got["address"] != "http://a:8080" || got["state"] != "active" || got["user_capacity"] != 7.0 {
		t.Errorf("heartbeat %v", got)
	}
	if left, _ := s.Do("PTTL", prefix+"instance:a").AsInt64(); left <= 0 || left > ttl.Milliseconds() {
		t.Errorf("the heartbeat lives %d ms", left)
	}
}

// fakes are members that only stand in Valkey.
type fakes struct {
	*valkeytest.Server
	t *testing.T
}

// put writes a heartbeat as an older node does. The set comes last: a beat between the two would clear away who stands in it
// and has no heartbeat.
func (f fakes) put(id, state string, capacity, users int) {
	f.Do("SET", "aqueduct:instance:"+id, fmt.Sprintf(
		`{"id":%q,"address":"http://%s:8080","state":%q,"user_capacity":%d,"active_users":%d}`, id, id, state, capacity, users), "EX", "86400")
	f.Do("SADD", "aqueduct:instances", id)
}

// tenants is how many a member has.
func (f fakes) tenants(id string) int {
	n, _ := f.Do("ZCARD", "aqueduct:instance:"+id+":assignments").AsInt64()
	return int(n)
}

// observer is a node that takes no tenants itself, and under whose eyes no tenant becomes idle.
func observer(t *testing.T, s *valkeytest.Server, members int) *node {
	t.Helper()
	c := config(t, s.URL(), member("observer", 1))
	c.Idle = time.Hour
	n := start(t, c)
	n.sees(1 + members)
	if err := n.Announce(t.Context(), cluster.Draining); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	type fake struct {
		id, state       string
		capacity, users int
	}
	for name, tt := range map[string]struct {
		fakes []fake
		want  map[string]int // tenants of each after 30 came
	}{
		"nobody has more than its capacity": {
			[]fake{{"b", "active", 10, 0}, {"c", "active", 20, 0}}, map[string]int{"b": 10, "c": 20}},
		"what a member reports counts": {
			[]fake{{"b", "active", 40, 40}, {"c", "active", 40, 0}}, map[string]int{"b": 0, "c": 30}},
		"a draining member gets nothing": {
			[]fake{{"b", "draining", 100, 0}, {"c", "active", 1, 0}}, map[string]int{"b": 0, "c": 30}},
		"nor one that is offline": {
			[]fake{{"b", "offline", 100, 0}, {"c", "active", 1, 0}}, map[string]int{"b": 0, "c": 30}},
		"who does not tell its capacity has that of the default": {
			[]fake{{"b", "active", 0, 50}, {"c", "active", 60, 60}}, map[string]int{"b": 30, "c": 0}},
		"when all are full, the share counts": {
			[]fake{{"b", "active", 5, 0}, {"c", "active", 10, 0}}, map[string]int{"b": 10, "c": 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fakes{valkeytest.Start(t), t}
			for _, m := range tt.fakes {
				f.put(m.id, m.state, m.capacity, m.users)
			}
			n := observer(t, f.Server, len(tt.fakes))
			for i := range 30 {
				n.owner("tenant-" + strconv.Itoa(i))
			}
			for id, want := range tt.want {
				if got := f.tenants(id); got != want {
					t.Errorf("%s has %d tenants, want %d", id, got, want)
				}
			}
		})
	}
}

// TestRemains: what nodes have left behind counts for nothing, and is cleared away.
func TestRemains(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	f.put("b", "active", 3, 0)
	for i := range 5 { // assignments that have ended long ago
		f.Do("ZADD", "aqueduct:instance:b:assignments", "1000", "old-"+strconv.Itoa(i))
	}
	f.Do("SADD", "aqueduct:instances", "silent", "broken", "strange")
	f.Do("ZADD", "aqueduct:instance:silent:assignments", "1000", "x")
	f.Do("SET", "aqueduct:instance:broken", "{")
	f.Do("SET", "aqueduct:instance:strange", `{"id":"strange","address":"nowhere","state":"active"}`)
	n := observer(t, f.Server, 1)
	for i := range 3 {
		if got := n.owner(strconv.Itoa(i)); got != "b" {
			t.Errorf("owner %s", got)
		}
	}
	if got := f.tenants("b"); got != 3 {
		t.Errorf("b has %d tenants", got)
	}
	ids, _ := f.Do("SMEMBERS", "aqueduct:instances").AsStrSlice()
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"b", "observer", "strange"}) || f.tenants("silent") != 0 {
		t.Errorf("left: %q", ids)
	}
}

func TestOwnersStay(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	f.put("b", "active", 100, 0)
	n := observer(t, f.Server, 1)
	if got := n.owner("u"); got != "b" {
		t.Fatal(got)
	}
	f.put("c", "active", 100, 0)
	f.put("d", "active", 100, 0)
	n.sees(4)
	other := start(t, config(t, f.URL(), member("e", 100)))
	other.sees(5)
	for range 3 {
		if got := other.owner("u"); got != "b" {
			t.Errorf("the owner of an active tenant moved to %s", got)
		}
	}
	f.put("b", "draining", 100, 0)
	other.await("b drains", func(r *cluster.Roster) bool { m, _ := r.Member("b"); return m.State == cluster.Draining })
	if got := other.owner("u"); got == "b" || got == "observer" {
		t.Errorf("the owner is %s, which drains", got)
	}
	if got := f.tenants("b"); got != 0 {
		t.Errorf("b still has %d tenants", got)
	}
}

// TestGoneOwner: an owner that is gone is followed by another, and then by nobody else.
func TestGoneOwner(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	mortal := config(t, s.URL(), member("c", 100))
	mortal.TTL = short
	a, b, c := start(t, config(t, s.URL(), member("a", 100))), start(t, config(t, s.URL(), member("b", 100))), start(t, mortal)
	for _, n := range []*node{a, b, c} {
		n.sees(3)
	}
	first := make(map[string]string)
	for i := range 60 {
		key := strconv.Itoa(i)
		first[key] = a.owner(key)
	}
	c.kill()
	a.sees(2)
	b.sees(2)
	for key, before := range first {
		now := a.owner(key)
		if other := b.owner(key); other != now {
			t.Errorf("%s belongs to %s and to %s", key, now, other)
		}
		if moved := now != before; moved != (before == "c") {
			t.Errorf("%s went from %s to %s, when c left", key, before, now)
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	f.put("b", "active", 100, 0)
	f.put("c", "active", 100, 0)
	n := observer(t, f.Server, 2)
	owners := n.owners()
	first := n.owner("u")
	n.Release(t.Context(), "u", "somebody else")
	if got := n.owner("u"); got != first {
		t.Errorf("it was released by who did not have it: %s", got)
	}
	owners.Prune(t.Context(), first, "u")
	next, err := owners.Of(t.Context(), "u", []string{first})
	if err != nil || next.ID == first {
		t.Fatalf("%s follows %s, %v", next.ID, first, err)
	}
	if f.tenants(first) != 0 || f.tenants(next.ID) != 1 {
		t.Errorf("%d and %d tenants", f.tenants(first), f.tenants(next.ID))
	}
}

// TestSuccessor: who takes no work that is handed over loses the tenant to the next node, for all of them and not for one.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	f.put("b", "active", 100, 0)
	f.put("c", "active", 100, 0)
	n := observer(t, f.Server, 2)
	first := n.owner("u")
	next, err := n.owners().Successor(t.Context(), "u", []string{first})
	if err != nil || next.ID == first {
		t.Fatalf("%s follows %s, %v", next.ID, first, err)
	}
	if f.tenants(first) != 0 || f.tenants(next.ID) != 1 || n.owner("u") != next.ID {
		t.Errorf("%d and %d tenants, and the owner is %s", f.tenants(first), f.tenants(next.ID), n.owner("u"))
	}
	if _, err := n.owners().Successor(t.Context(), "u", []string{first, next.ID}); !errors.Is(err, cluster.ErrNobody) || f.tenants(next.ID) != 1 {
		t.Errorf("nobody else: %v, and %d tenants", err, f.tenants(next.ID))
	}
}

// TestManyAtOnce: of many nodes that ask for the same new tenants at once, all hear the same.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	nodes := make([]*node, 5)
	for i := range nodes {
		nodes[i] = start(t, config(t, s.URL(), member("n"+strconv.Itoa(i), 20)))
	}
	for _, n := range nodes {
		n.sees(len(nodes))
	}
	var mu sync.Mutex
	answers := make(map[string]map[string]bool)
	var all sync.WaitGroup
	for _, n := range nodes {
		owners := n.owners()
		for i := range 100 {
			all.Go(func() {
				key := strconv.Itoa(i)
				o, err := owners.Of(context.Background(), key, nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if answers[key] == nil {
					answers[key] = make(map[string]bool)
				}
				answers[key][o.ID] = true
			})
		}
	}
	all.Wait()
	count := make(map[string]int)
	for key, ids := range answers {
		if len(ids) != 1 {
			t.Errorf("%s belongs to %v", key, ids)
		}
		for id := range ids {
			count[id]++
		}
	}
	for id, n := range count {
		if n > 20 {
			t.Errorf("%s has %d tenants and room for 20: %v", id, n, count)
		}
	}
}

// TestBalance: 100,000 tenants on 10 nodes, none of which is ever over its capacity before all are full, and
// when one leaves only its own move.
func TestBalance(t *testing.T) {
	t.Parallel()
	const nodes, tenants = 10, balanced
	f := fakes{valkeytest.Start(t), t}
	for i := range nodes {
		f.put("n"+strconv.Itoa(i), "active", tenants/nodes, 0)
	}
	n := observer(t, f.Server, nodes)
	owners := n.owners()
	place := func(from, to int) (of []string) {
		of = make([]string, to-from)
		var all sync.WaitGroup
		for worker := range 16 {
			all.Go(func() {
				for i := from + worker; i < to; i += 16 {
					o, err := owners.Of(context.Background(), "tenant-"+strconv.Itoa(i), nil)
					if err != nil {
						t.Error(err)
						return
					}
					of[i-from] = o.ID
				}
			})
		}
		all.Wait()
		return of
	}
	var before []string
	for _, to := range []int{tenants / 2, tenants * 9 / 10, tenants} {
		before = append(before, place(len(before), to)...)
		for i := range nodes {
			if got := f.tenants("n" + strconv.Itoa(i)); got > tenants/nodes {
				t.Errorf("with %d tenants, n%d has %d", to, i, got)
			}
		}
	}
	f.Do("DEL", "aqueduct:instance:n3", "aqueduct:instance:n3:assignments")
	n.sees(nodes)
	moved := 0
	for i, now := range place(0, tenants) {
		if now != before[i] {
			moved++
			if before[i] != "n3" {
				t.Fatalf("tenant %d went from %s to %s", i, before[i], now)
			}
		}
	}
	if moved != tenants/nodes {
		t.Errorf("%d moved, want the %d of the node that left", moved, tenants/nodes)
	}
}

func TestBadConfig(t *testing.T) {
	for rule, change := range map[string]func(*valkey.Config){
		"hash tag":      func(c *valkey.Config) { c.HashTag = "{a}" },
		"negative":      func(c *valkey.Config) { c.Heartbeat = -1 },
		"node id":       func(c *valkey.Config) { c.Self.ID = "" },
		"node address":  func(c *valkey.Config) { c.Self.Address = "host:80" },
		"active tenant": func(c *valkey.Config) { c.Self.Capacity = -1 },
	} {
		c := valkey.Config{Self: member("a", 1)}
		change(&c)
		if _, err := valkey.New(c); err == nil {
			t.Errorf("%s: no error", rule)
		}
	}
}

package valkey_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// TestActiveTenantsAskNobody: the owner of an active tenant is known without Valkey, that of a new one is
// the first of the ranking then.
func TestActiveTenantsAskNobody(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	reg := prometheus.NewRegistry()
	c := seldom(t, s, member("a", 10))
	c.Registerer = reg
	c.Link = linked(t, s.URL(), 5*time.Second) // which the new tenant waits for
	fakes{s, t}.put("b", "active", 1000, 0)
	n := start(t, c)
	n.sees(2)
	owners := make(map[string]string)
	for i := range 40 {
		owners[strconv.Itoa(i)] = n.owner(strconv.Itoa(i))
	}
	s.Kill()
	for range 100 {
		for key, want := range owners {
			if got := n.owner(key); got != want {
				t.Fatalf("%s is %s's, not %s's", key, got, want)
			}
		}
	}
	first := cluster.Rank(n.Roster().Members, "new")[0].ID
	if got := n.owner("new"); got != first {
		t.Errorf("a new tenant is %s's, not the first's, %s", got, first)
	}
	for from, want := range map[string]float64{"cache": 4000, "valkey": 40, "nobody": 1} {
		if got := counter(t, reg, "aquifer_cluster_placements_total", from); got != want {
			t.Errorf("%v from %s, want %v", got, from, want)
		}
	}
}

// TestRenewal: an assignment lives as long as its tenant is active or has work, and is given up after that.
func TestRenewal(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	var busy atomic.Bool
	busy.Store(true)
	c := config(t, s.URL(), member("a", 10))
	c.Idle = 4 * time.Second // and a process may stand still for so long
	c.Busy = func(key string) bool { return key == "busy" && busy.Load() }
	n := start(t, c)
	n.sees(1)
	long := strings.Repeat("x", 1000)
	for _, key := range []string{"busy", "idle", long, cluster.SharedKey("k")} {
		n.owner(key)
	}
	f := fakes{s, t}
	valkeytest.Until(t, func() error {
		if got := f.tenants("a"); got != 1 {
			return errors.New(strconv.Itoa(got) + " tenants are there")
		}
		return nil
	})
	// The busy one outlives its assignment's first life by far.
	for range 40 {
		before, _ := s.Do("GET", "aqueduct:instance:a").ToString()
		valkeytest.Until(t, func() error {
			if s.Get("aqueduct:instance:a") == before {
				return errors.New("no new heartbeat")
			}
			return nil
		})
	}
	if got := f.tenants("a"); got != 1 {
		t.Errorf("%d tenants are there", got)
	}
	busy.Store(false)
	valkeytest.Until(t, func() error {
		if keys, _ := s.Do("KEYS", "aqueduct:assignment:*").AsStrSlice(); len(keys) != 0 {
			return errors.New("an idle tenant is not given up")
		}
		return nil
	})
}

// TestWorkNobodyAskedFor: a tenant of which the node has work from before its start, or from another node, stays with it
// as long as that lasts, if it was given to it. One of another node, or of none, stays as it is.
func TestWorkNobodyAskedFor(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	f.put("b", "active", 10, 0)
	names := map[string]string{}
	for key, owner := range map[string]string{"mine": "a", "theirs": "b", "nobodys": ""} {
		sum := sha256.Sum256([]byte(key))
		names[key] = "aqueduct:assignment:" + hex.EncodeToString(sum[:])
		if owner != "" {
			f.Do("SET", names[key], owner, "PX", "3000")
		}
	}
	f.Do("PERSIST", names["mine"]) // until the node renews it, however late
	var works atomic.Bool
	works.Store(true)
	c := config(t, f.URL(), member("a", 10))
	c.Idle = 4 * time.Second // and a process may stand still for so long
	c.Busy = func(string) bool { return works.Load() }
	c.Work = func() iter.Seq[string] { return slices.Values([]string{"mine", "theirs", "nobodys"}) }
	start(t, c)
	valkeytest.Until(t, func() error {
		if f.Get(names["theirs"]) != "" {
			return errors.New("the work has made another node's tenant last")
		}
		return nil
	})
	valkeytest.Until(t, func() error {
		if left, _ := f.Do("PTTL", names["mine"]).AsInt64(); left < 0 {
			return errors.New("the assignment is not renewed")
		}
		return nil
	})
	if got := f.Get(names["mine"]); got != "a" {
		t.Errorf("the node has lost its tenant to %q", got)
	}
	if got := f.Get(names["nobodys"]); got != "" {
		t.Errorf("a tenant of nobody's went to %q", got)
	}
	works.Store(false)
	valkeytest.Until(t, func() error {
		if f.Get(names["mine"]) != "" {
			return errors.New("an idle tenant is not given up")
		}
		return nil
	})
}

// TestLostTenant: an owner that was told off by another node notices with its next renewal.
func TestLostTenant(t *testing.T) {
	t.Parallel()
	f := fakes{valkeytest.Start(t), t}
	a := start(t, config(t, f.URL(), member("a", 10)))
	a.sees(1)
	if got := a.owner("u"); got != "a" {
		t.Fatal(got)
	}
	f.put("b", "active", 10, 0)
	keys, _ := f.Do("KEYS", "aqueduct:assignment:*").AsStrSlice()
	f.Do("SET", keys[0], "b")
	a.sees(2)
	valkeytest.Until(t, func() error {
		if got := a.owner("u"); got != "b" {
			return errors.New("the owner is still " + got)
		}
		return nil
	})
}

// TestStrangeAssignment: an assignment that somebody else has written over keeps no other tenant from being renewed.
func TestStrangeAssignment(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	a := start(t, config(t, s.URL(), member("a", 10)))
	a.sees(1)
	a.owner("u")
	a.owner("v")
	s.Do("DEL", assignmentOf("v"))
	s.Do("LPUSH", assignmentOf("v"), "x")
	s.Do("PERSIST", assignmentOf("u"))
	valkeytest.Until(t, func() error {
		if left, _ := s.Do("PTTL", assignmentOf("u")).AsInt64(); left < 0 {
			return errors.New("the assignment is not renewed")
		}
		return nil
	})
	if got := a.owner("v"); got != "a" {
		t.Errorf("the owner is %q", got)
	}
}

// TestStrangeIdleAssignment: nor does it keep any from being given up.
func TestStrangeIdleAssignment(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	c := config(t, s.URL(), member("a", 100))
	c.Idle = time.Second
	a := start(t, c)
	a.sees(1)
	a.owner("strange")
	var names []string
	for i := range 20 {
		key := strconv.Itoa(i)
		a.owner(key)
		names = append(names, assignmentOf(key))
	}
	s.Do("DEL", assignmentOf("strange"))
	s.Do("LPUSH", assignmentOf("strange"), "x")
	valkeytest.Until(t, func() error {
		for _, name := range names {
			if s.Do("PERSIST", name); s.Get(name) != "" { // without an end of its own
				return errors.New("an idle tenant is not given up")
			}
		}
		return nil
	})
}

// TestSlowPlacement: a request of a new tenant waits for a Valkey that hangs only as long as was agreed.
func TestSlowPlacement(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	c := seldom(t, s, member("a", 10))
	c.Link = linked(t, s.URL(), soon)
	n := start(t, c)
	n.sees(1)
	s.Pause()
	for i := range 20 {
		if got := n.owner("new " + strconv.Itoa(i)); got != "a" {
			t.Errorf("owner %s", got)
		}
	}
	s.Resume()
}

// TestDataLostBeforeARenewal: an owner whose Valkey loses everything just before the owner renews its tenants keeps them.
func TestDataLostBeforeARenewal(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	renews, lost := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := config(t, s.URL(), member("a", 10))
	c.Idle = time.Millisecond // so that the node looks for work before it renews
	c.Busy = func(string) bool {
		once.Do(func() {
			close(renews)
			select {
			case <-lost:
			case <-t.Context().Done():
			}
		})
		return true
	}
	n := start(t, c)
	n.sees(1)
	n.owner("u")
	<-renews
	s.Do("FLUSHALL")
	close(lost)
	valkeytest.Until(t, func() error {
		if got := s.Get(assignmentOf("u")); got != "a" {
			return fmt.Errorf("the owner is %q", got)
		}
		return nil
	})
}

package valkey_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// outage is how long nodes are without Valkey: so long that heartbeats have ended, and words as well.
const outage = 3 * short / 2

// fleet is nodes that can ask each other.
type fleet struct {
	t        *testing.T
	server   *valkeytest.Server
	registry *prometheus.Registry // of a

	mu    sync.Mutex // guards all below
	nodes map[string]*node
	words map[string]func() (cluster.Assent, error) // what becomes of questions to nodes; nil: they answer
	asked map[string]int                            // how often they have answered
}

// newFleet is nodes of these ids, each with a user of its own in Valkey and room for few tenants. They wait for Valkey's
// answers until timeout. That must come soon where Valkey is killed, as its client tries to connect again all that time.
func newFleet(t *testing.T, timeout time.Duration, ids ...string) *fleet {
	t.Helper()
	f := &fleet{
		t: t, server: valkeytest.Start(t), registry: prometheus.NewRegistry(),
		nodes: map[string]*node{}, words: map[string]func() (cluster.Assent, error){}, asked: map[string]int{},
	}
	for _, id := range ids {
		f.server.Do("ACL", "SETUSER", id, "on", ">secret", "~*", "+@all")
		url := fmt.Sprintf("valkey://%s:secret@%s", id, f.server.Addr)
		c := config(t, url, member(id, 5))
		c.Link, c.TTL, c.Ask = linked(t, url, timeout), short, f.ask
		if id == "a" {
			c.Registerer = f.registry
		}
		n := start(t, c)
		f.mu.Lock()
		f.nodes[id] = n
		f.mu.Unlock()
	}
	for _, n := range f.nodes {
		n.sees(len(ids))
	}
	return f
}

func (f *fleet) ask(_ context.Context, m cluster.Member) (cluster.Assent, error) {
	f.mu.Lock()
	n, word := f.nodes[m.ID], f.words[m.ID]
	f.asked[m.ID]++
	f.mu.Unlock()
	if word != nil {
		return word()
	}
	return n.Assent(), nil
}

// says sets what becomes of questions to a node.
func (f *fleet) says(id string, word cluster.Assent, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.words[id] = func() (cluster.Assent, error) { return word, err }
}

// askedAgain waits until a node has been asked, and its answer heeded.
func (f *fleet) askedAgain(id string) {
	f.t.Helper()
	count := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.asked[id]
	}
	before := count()
	valkeytest.Until(f.t, func() error {
		if n := count(); n < before+3 { // by two nodes at least twice, so that the first of it is over
			return fmt.Errorf("%s was asked %d times", id, n-before)
		}
		return nil
	})
}

// cut has some nodes lose Valkey, or find it again.
func (f *fleet) cut(lost bool, ids ...string) {
	for _, id := range ids {
		f.server.Do("ACL", "SETUSER", id, map[bool]string{true: "off", false: "on"}[lost])
		f.server.Do("CLIENT", "KILL", "USER", id)
	}
}

// stale waits until a node goes on with what it knew, or does not any more.
func (n *node) stale(want bool) {
	n.t.Helper()
	valkeytest.Until(n.t, func() error {
		if r := n.Roster(); r.Unsettled != nil || r.Stale.IsZero() == want {
			return fmt.Errorf("stale since %v, unsettled: %w", r.Stale, r.Unsettled)
		}
		return nil
	})
}

// settledFor expects that nodes stay settled, on what they see, for a time.
func (f *fleet) settledFor(d time.Duration, ids ...string) {
	f.t.Helper()
	wait := func() { <-time.After(d) }
	for _, id := range ids {
		inner := wait
		wait = func() { f.nodes[id].neverUnsettled(inner) }
	}
	wait()
}

// tenantsOf gives tenants owners, of whom each node hears, and returns them.
func (f *fleet) tenantsOf(n int) map[string]string {
	f.t.Helper()
	owners := map[string]string{}
	for i := range n {
		key := strconv.Itoa(i)
		for _, n := range f.nodes {
			owners[key] = n.assigned(f.server, key)
		}
	}
	return owners
}

// agree expects that all nodes name these owners.
func (f *fleet) agree(owners map[string]string) {
	f.t.Helper()
	for key, want := range owners {
		for id, n := range f.nodes {
			if got := n.owner(key); got != want {
				f.t.Errorf("to %s, %s is %s's, not %s's", id, key, got, want)
			}
		}
	}
}

// TestNobodyReachesValkey: all go on with what they knew, for as long as it takes, and nothing moves when it is back.
func TestNobodyReachesValkey(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*valkeytest.Server) }{
		"killed and back without its data": {(*valkeytest.Server).Kill, (*valkeytest.Server).Restart},
		"paused":                           {(*valkeytest.Server).Pause, (*valkeytest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, soon, "a", "b", "c")
			owners := f.tenantsOf(30) // more than the nodes have room for, so that they are not where the ranking puts them
			before := time.Now().Add(-short).Unix()
			fault.begin(f.server)
			f.settledFor(outage, "a", "b", "c")
			for _, n := range f.nodes {
				n.stale(true)
			}
			f.agree(owners)
			for i := range 10 {
				key := "new " + strconv.Itoa(i)
				owners[key] = cluster.Rank(f.nodes["a"].Roster().Members, key)[0].ID
			}
			f.agree(owners)
			if since := gauge(t, f.registry, "aquifer_cluster_stale_since_timestamp_seconds"); since < float64(before) {
				t.Errorf("stale since %v", since)
			}
			if name != "paused" { // one that is killed has no users when it is back
				fault.end(f.server)
				for id := range f.nodes {
					f.server.Do("ACL", "SETUSER", id, "on", ">secret", "~*", "+@all")
				}
			} else {
				fault.end(f.server)
			}
			for _, n := range f.nodes {
				n.stale(false)
				n.sees(3)
			}
			f.agree(owners)
			if since := gauge(t, f.registry, "aquifer_cluster_stale_since_timestamp_seconds"); since != 0 {
				t.Errorf("stale since %v", since)
			}
			valkeytest.Until(t, func() error {
				if keys, _ := f.server.Do("KEYS", "aqueduct:assignment:*").AsStrSlice(); len(keys) != len(owners) {
					return fmt.Errorf("%d assignments are back, want %d", len(keys), len(owners))
				}
				return nil
			})
		})
	}
}

// TestSomeReachValkey: who has lost it while another one has not is out, and that one takes over.
func TestSomeReachValkey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, long, "a", "b", "c")
	f.tenantsOf(9)
	f.cut(true, "a", "b")
	f.nodes["a"].unsettled("")
	f.nodes["b"].unsettled("")
	f.nodes["c"].sees(1)
	owners := map[string]string{}
	for i := range 9 {
		owners[strconv.Itoa(i)] = f.nodes["c"].assigned(f.server, strconv.Itoa(i))
	}
	f.cut(true, "c") // now nobody reaches it, but c alone knows what was last
	f.settledFor(outage, "c")
	f.nodes["c"].stale(true)
	for _, id := range []string{"a", "b"} {
		if _, err := f.nodes[id].owners().Of(t.Context(), "1", nil); err == nil {
			t.Errorf("%s, which was replaced, names an owner", id)
		}
	}
	f.cut(false, "a", "b", "c")
	for _, n := range f.nodes {
		n.sees(3)
		n.stale(false)
	}
	for key, want := range owners {
		for id, n := range f.nodes {
			if got := n.assigned(f.server, key); got != want {
				t.Errorf("to %s, %s is %s's, not %s's", id, key, got, want)
			}
		}
	}
}

// TestSomeAreSilent: a node does not go on while it does not know what another one does.
func TestSomeAreSilent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, soon, "a", "b")
	f.says("b", "", errors.New("no answer"))
	f.server.Kill()
	f.nodes["a"].unsettled("has not answered for " + short.String())
}

// TestSomeLeave: who has left need not be heard of again, nor need a process that has ended.
func TestSomeLeave(t *testing.T) {
	t.Parallel()
	f := newFleet(t, soon, "a", "b", "c")
	f.server.Kill()
	f.says("c", cluster.Left, nil)
	f.nodes["a"].stale(true)
	if err := f.nodes["b"].Announce(t.Context(), cluster.Draining); err == nil {
		t.Error("Valkey was told")
	}
	f.askedAgain("b")
	f.says("b", "", errors.New("no answer"))
	f.says("c", "", errors.New("no answer"))
	f.settledFor(outage, "a")
	f.nodes["a"].stale(true)
}

// TestSomeRefuse: a port that is closed promises for the moment only. There may be a new process, which is not heard and
// takes over.
func TestSomeRefuse(t *testing.T) {
	t.Parallel()
	f := newFleet(t, soon, "a", "b")
	f.says("b", cluster.Refused, nil)
	f.server.Kill()
	f.settledFor(outage, "a")
	f.nodes["a"].stale(true)
	f.says("b", "", errors.New("no answer"))
	f.nodes["a"].unsettled("has not answered for " + short.String())
}

// TestOneIsBackFirst: who reaches Valkey again before the others takes nothing over as long as they rely on its word, and
// they do so no longer than that.
func TestOneIsBackFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t, long, "a", "b")
	owners := f.tenantsOf(20)
	f.cut(true, "a", "b")
	f.settledFor(outage, "a", "b")
	f.cut(false, "b")
	taken := func() (moved bool) {
		for key, was := range owners {
			if o, err := f.nodes["b"].owners().Of(t.Context(), key, nil); err == nil && was == "a" && o.ID == "b" {
				return true
			}
		}
		return false
	}
	valkeytest.Until(t, func() error {
		moved := taken() // before a is looked at
		_, err := f.nodes["a"].owners().Of(t.Context(), "0", nil)
		switch {
		case moved && err == nil:
			t.Fatal("b has taken over while a goes on")
		case !moved:
			return errors.New("b has not taken over")
		}
		return nil
	})
}

// TestAWordIsGivenWhileValkeyIsAsked: who promises to take nothing over heeds no answer of Valkey to what it has asked
// before.
func TestAWordIsGivenWhileValkeyIsAsked(t *testing.T) {
	t.Parallel()
	f := newFleet(t, long, "a", "b")
	b := f.nodes["b"]
	var asked time.Time
	promised := func() error {
		if asked = time.Now(); b.Assent() != cluster.Assented {
			return errors.New("b does not promise")
		}
		return nil
	}
	tries := 0
	valkeytest.Until(t, func() error {
		tries++
		key := strconv.Itoa(tries)
		f.cut(true, "b")
		m, named := b.Place(t.Context(), key, func() []cluster.Member {
			valkeytest.Until(t, promised)
			f.cut(false, "b")
			return []cluster.Member{member("a", 5)}
		})
		late := time.Since(asked) >= short/valkey.MinBeats
		switch {
		case f.server.Get(assignmentOf(key)) == "":
			f.cut(false, "b")
			return errors.New("valkey has not been asked")
		case named && late:
			return errors.New("the answer has come when the promise was over")
		case named:
			t.Errorf("%s is the owner", m.ID)
		}
		return nil
	})
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

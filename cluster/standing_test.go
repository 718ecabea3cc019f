package cluster_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// sealed runs a test with n nodes that heed what the others say of their seals, those in secrets with one of their own.
func sealed(t *testing.T, n int, secrets map[string]string, test func(t *testing.T, w *world)) {
	t.Helper()
	change := func(id string, c *cluster.ForwarderConfig) {
		c.Owners = nil
		if secrets[id] != "" {
			c.Seal = seal(t, id, secrets[id])
		}
	}
	inWorldOf(t, n, change, test)
}

// run runs the forwarders of all nodes, which start in this order, for so long before the next one.
func (w *world) run(pause time.Duration, order ...string) (end func()) {
	var ends []func()
	for _, id := range order {
		ends = append(ends, runForwarder(w.t, w.nodes[id].forwarder))
		time.Sleep(pause)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// stand are the nodes that may own something.
func (w *world) stand() string {
	var list []string
	for id, h := range w.nodes {
		if h.owners.Unsettled() == nil {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// A node whose seal counts for something owns nothing before the others were asked.
func TestANodeOwnsNothingUnasked(t *testing.T) {
	sealed(t, 2, nil, func(t *testing.T, w *world) {
		w.post("node-0", w.of("node-0"), "x").refused(t, 503)
		if h := w.nodes["node-0"]; h.owners.Status().Unsettled == "" || h.owners.Others() {
			t.Errorf("%+v", h.owners.Status())
		}
		w.do("GET", "http://node-0/held/node-1", "", "").refused(t, 503)
		defer w.run(time.Millisecond, "node-0")()
		if got := w.post("node-0", w.of("node-0"), "y"); got.StatusCode != 201 {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		w.took("x")
	})
}

// Who stays of nodes with these secrets, when they start in this order, at once or long after each other. A node that
// is down does not answer.
func TestWhoStands(t *testing.T) {
	const x, y = "a secret of its own", "another one of its own"
	for _, c := range []struct {
		secrets map[string]string
		down    string
		order   string
		stand   string // when they start at once; empty for the same as late
		late    string
	}{
		{nil, "", "node-0 node-1 node-2 node-3", "", "node-0 node-1 node-2 node-3"},
		{map[string]string{"node-0": x}, "", "node-0 node-1 node-2 node-3", "", "node-1 node-2 node-3"},
		{map[string]string{"node-3": x}, "", "node-0 node-1 node-2 node-3", "", "node-0 node-1 node-2"},
		{map[string]string{"node-3": x}, "node-0", "node-3 node-2 node-1", "", "node-1 node-2"},
		{map[string]string{"node-2": x, "node-3": x}, "", "node-3 node-2 node-1 node-0", "", "node-0 node-1 node-2 node-3"},
		{map[string]string{"node-1": x, "node-3": x}, "", "node-3 node-2 node-1 node-0", "", "node-0 node-1 node-2 node-3"},
		{map[string]string{"node-1": x, "node-2": y}, "node-3", "node-2 node-1 node-0", "node-0", "node-2"},
		{map[string]string{"node-1": x}, "node-2 node-3", "node-1 node-0", "node-0", "node-1"},
		{map[string]string{"node-1": x}, "node-0 node-2 node-3", "node-1", "", "node-1"},
	} {
		for pause, want := range map[time.Duration]string{time.Microsecond: c.stand, 10 * time.Second: c.late} {
			t.Run(fmt.Sprint(c, pause), func(t *testing.T) {
				sealed(t, 4, c.secrets, func(t *testing.T, w *world) {
					for _, id := range strings.Fields(c.down) {
						w.nodes[id].kill()
					}
					started := strings.Fields(c.order)
					if pause > time.Second {
						for _, id := range started[1:] {
							w.nodes[id].setDial(refuse)
						}
					}
					var ends []func()
					for _, id := range started {
						w.nodes[id].setDial(nil)
						ends = append(ends, w.run(pause, id))
					}
					time.Sleep(20 * time.Second)
					if want == "" {
						want = c.late
					}
					if got := w.stand(); got != want {
						t.Errorf("there stand %q, want %q", got, want)
					}
					for _, end := range ends {
						end()
					}
				})
			})
		}
	}
}

// The one that stays of nodes that all refuse each other takes the others' tenants, too, as they do not.
func TestWhoStandsAloneTakesAll(t *testing.T) {
	sealed(t, 2, map[string]string{"node-1": "a secret of its own"}, func(t *testing.T, w *world) {
		defer w.run(time.Second, "node-0", "node-1")()
		key := w.of("node-1", "node-0")
		if got := w.post("node-0", key, "x"); got.body != "node-0" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		got := w.post("node-1", key, "y").refused(t, 503)
		if !strings.Contains(got.Error, "AQUIFER_PEER_SECRET") || !strings.Contains(got.Error, "broken") {
			t.Errorf("%+v", got)
		}
		w.took("y")
	})
}

// However many members there are, as a rule one of them is asked.
func TestANodeThatIsBelievedAsksOne(t *testing.T) {
	sealed(t, 5, nil, func(t *testing.T, w *world) {
		defer w.run(time.Microsecond, "node-0")()
		time.Sleep(10*time.Second + time.Millisecond)
		seen := 0
		for _, h := range w.nodes {
			seen += h.count(&h.seen)
		}
		if seen != 11 {
			t.Errorf("%d requests in 10 s", seen)
		}
	})
}

// Members that hang are not waited for longer than it takes, and say nothing.
func TestMembersThatHangSayNothingOfASeal(t *testing.T) {
	sealed(t, 3, nil, func(t *testing.T, w *world) {
		w.nodes["node-1"].setDial(hang)
		defer w.run(3*time.Second, "node-0")()
		if got := w.stand(); got != "node-0" {
			t.Errorf("there stand %q", got)
		}
		w.nodes["node-2"].setDial(hang)
		time.Sleep(10 * time.Second)
		if got := w.stand(); got != "node-0" {
			t.Errorf("there stand %q", got)
		}
	})
}

// A member whose address leads to this node says nothing, though this node refuses what is for that member.
func TestAnAddressThatLeadsHereSaysNothing(t *testing.T) {
	sealed(t, 2, nil, func(t *testing.T, w *world) {
		w.fleet.View("node-0").Edit(func(r *cluster.Roster) { r.Members[1].Address = r.Self.Address })
		defer w.run(time.Millisecond, "node-0")()
		for range 50 {
			if got := w.stand(); got != "node-0" {
				t.Fatalf("there stand %q", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Somebody who answers in a member's place, such as a proxy for one that is down, does not believe the seal.
func TestAProxyBelievesNothing(t *testing.T) {
	for _, status := range []int{401, 404, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			sealed(t, 3, map[string]string{"node-2": "a secret of its own"}, func(t *testing.T, w *world) {
				proxy := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
				w.nodes["node-1"].front = proxy
				defer w.run(time.Millisecond, "node-0", "node-2")()
				for range 100 {
					if got := w.stand(); got != "node-0" {
						t.Fatalf("there stand %q", got)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		})
	}
}

// A node of a lower id that refuses another one and takes no work for a reason of its own does not keep that one out.
func TestWhoNeverComesIsNotWaitedForForEver(t *testing.T) {
	sealed(t, 2, map[string]string{"node-1": "a secret of its own"}, func(t *testing.T, w *world) {
		w.fleet.Unsettle("node-0", errors.New("its disk is full"))
		defer w.run(time.Millisecond, "node-0", "node-1")()
		time.Sleep(time.Second)
		if got := w.stand(); got != "" {
			t.Errorf("there stand %q", got)
		}
		time.Sleep(time.Minute)
		if got := w.stand(); got != "node-1" {
			t.Errorf("there stand %q", got)
		}
		w.fleet.Unsettle("node-0", nil)
		time.Sleep(time.Minute)
		if got := w.stand(); got != "node-1" {
			t.Errorf("there stand %q", got)
		}
	})
}

// Nor is one that drains.
func TestWhoDrainsIsNotWaitedFor(t *testing.T) {
	sealed(t, 2, map[string]string{"node-1": "a secret of its own"}, func(t *testing.T, w *world) {
		defer w.run(time.Millisecond, "node-0", "node-1")()
		w.fleet.Drain("node-0")
		time.Sleep(2 * time.Second)
		if got := w.stand(); got != "node-1" {
			t.Errorf("there stand %q", got)
		}
	})
}

// A node that was refused does not take a member that hangs for a moment for one that is gone.
func TestANodeThatIsRefusedStaysOutWhileTheOthersAreSlow(t *testing.T) {
	sealed(t, 2, map[string]string{"node-1": "a secret of its own"}, func(t *testing.T, w *world) {
		defer w.run(time.Millisecond, "node-0", "node-1")()
		for range 5 {
			w.nodes["node-0"].hold(8 * time.Second)
			for range 80 {
				if got := w.stand(); got != "node-0" {
					t.Fatalf("there stand %q", got)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
		}
		w.nodes["node-0"].hold(time.Hour)
		time.Sleep(time.Minute)
		if got := w.stand(); got != "node-1" {
			t.Errorf("there stand %q", got)
		}
	})
}

// Nor one that refuses it and then hangs.
func TestWhoRefusesAndThenHangsMayServe(t *testing.T) {
	sealed(t, 2, map[string]string{"node-0": "a secret of its own"}, func(t *testing.T, w *world) {
		w.nodes["node-1"].front = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Aquifer-Peer-Signature") == "" {
				<-r.Context().Done()
				return
			}
			rw.Header().Set("X-Aquifer-Peer-Refused", "broken")
			rw.WriteHeader(http.StatusUnauthorized)
		})
		defer w.run(9*time.Second, "node-0")()
		if got := w.stand(); got != "" {
			t.Errorf("there stand %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := w.stand(); got != "node-0" {
			t.Errorf("there stand %q", got)
		}
	})
}

// A node that does not see its cluster meanwhile has not waited.
func TestWhoSeesNobodyWaitsForNobody(t *testing.T) {
	sealed(t, 2, map[string]string{"node-1": "a secret of its own"}, func(t *testing.T, w *world) {
		lost := errors.New("its disk is full")
		w.fleet.Unsettle("node-0", lost)
		defer w.run(5*time.Second, "node-1")()
		w.fleet.Unsettle("node-1", lost)
		time.Sleep(time.Minute)
		w.fleet.Unsettle("node-1", nil)
		time.Sleep(5 * time.Second)
		if got := w.stand(); got != "" {
			t.Errorf("there stand %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := w.stand(); got != "node-1" {
			t.Errorf("there stand %q", got)
		}
	})
}

// The member that believed a node last is asked first: while the next one does not, all the others are asked once.
func TestANodeWhoseNextOneRefusesItAsksOne(t *testing.T) {
	sealed(t, 9, map[string]string{"node-1": "a secret of its own"}, func(t *testing.T, w *world) {
		dials := func() (all int) {
			for _, h := range w.nodes {
				all += h.count(&h.dials)
			}
			return all
		}
		for _, id := range []string{"node-0", "node-1"} { // and who is refused by all, asks all on the same connections
			defer w.run(time.Second/2, id)()
			before := dials()
			time.Sleep(time.Minute)
			if n := dials() - before; n > 1 {
				t.Errorf("%d new connections in a minute, of %s", n, id)
			}
		}
	})
}

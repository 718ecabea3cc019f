package valkey_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// soon is a timeout of those who ask a Valkey that does not answer.
const soon = 250 * time.Millisecond

// impatient is a configuration whose calls end soon.
func impatient(t *testing.T, url string, self cluster.Member) valkey.Config {
	t.Helper()
	c := config(t, url, self)
	c.Link, c.TTL = linked(t, url, soon), short
	return c
}

func (n *node) unsettled(part string) {
	n.t.Helper()
	n.await("unsettled: "+part, func(r *cluster.Roster) bool {
		return r.Unsettled != nil && strings.Contains(r.Unsettled.Error(), part)
	})
}

func (n *node) neverUnsettled(f func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	var watching sync.WaitGroup
	size := len(n.Roster().Members)
	watching.Go(func() {
		for {
			changed := n.Changes()
			if r := n.Roster(); r.Unsettled != nil || len(r.Members) < size {
				n.t.Errorf("the roster became %+v", *r)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	f()
	cancel()
	watching.Wait()
}

// TestValkeyDies: what is known holds for a while, then the node says that it knows nothing, and when
// Valkey is back, empty as it may be, so is the cluster.
func TestValkeyDies(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(*valkeytest.Server) }{
		"killed and back without its data": {(*valkeytest.Server).Kill, (*valkeytest.Server).Restart},
		"paused":                           {(*valkeytest.Server).Pause, (*valkeytest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valkeytest.Start(t)
			a, b := start(t, impatient(t, s.URL(), member("a", 10))), start(t, impatient(t, s.URL(), member("b", 10)))
			a.sees(2)
			b.sees(2)
			before := a.assigned(s, "u")
			outage.begin(s)
			a.unsettled("has not answered for " + short.String())
			b.unsettled("has not answered for " + short.String())
			if _, ok := a.Place(t.Context(), "u", func() []cluster.Member { return a.Roster().Members }); ok {
				t.Error("a node that knows nothing places a tenant")
			}
			if _, err := a.owners().Of(t.Context(), "u", nil); err == nil {
				t.Error("a node that knows nothing names an owner")
			}
			if a.Failures() == 0 {
				t.Error("no failure was counted")
			}
			outage.end(s)
			a.sees(2)
			b.sees(2)
			if name == "paused" && a.assigned(s, "u") != before {
				t.Errorf("the owner moved from %s", before)
			}
		})
	}
}

func TestStartsWithoutValkey(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Kill()
	n := start(t, impatient(t, s.URL(), member("a", 10)))
	n.unsettled("has not answered yet")
	if err := n.Announce(t.Context(), cluster.Draining); err == nil {
		t.Error("an announcement that reached nobody is no success")
	}
	s.Restart()
	n.sees(1)
	valkeytest.Until(t, func() error {
		if text := s.Get("aqueduct:instance:a"); !strings.Contains(text, "draining") {
			return errors.New(text)
		}
		return nil
	})
}

func counter(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s", name, label)
	return 0
}

// TestFlush: a Valkey that loses everything takes nobody out of the cluster, and who had a tenant keeps it.
func TestFlush(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	var nodes []*node
	for _, id := range []string{"a", "b", "c"} {
		nodes = append(nodes, start(t, config(t, s.URL(), member(id, 100))))
	}
	for _, n := range nodes {
		n.sees(3)
	}
	owners := make(map[string]string)
	for i := range 30 { // each owner hears of its tenants, as with a request
		key := strconv.Itoa(i)
		owners[key] = nodes[0].owner(key)
		nodes[owners[key][0]-'a'].owner(key)
	}
	nodes[0].neverUnsettled(func() {
		nodes[1].neverUnsettled(func() {
			s.Do("FLUSHALL")
			for _, n := range nodes {
				valkeytest.Until(t, func() error {
					if s.Get("aqueduct:instance:"+n.Roster().Self.ID) == "" {
						return errors.New("a node has not written its heartbeat again")
					}
					return nil
				})
			}
		})
	})
	valkeytest.Until(t, func() error {
		if keys, _ := s.Do("KEYS", "aqueduct:assignment:*").AsStrSlice(); len(keys) != len(owners) {
			return errors.New(strconv.Itoa(len(keys)) + " assignments are back")
		}
		return nil
	})
	late := start(t, config(t, s.URL(), member("d", 100)))
	late.sees(4)
	for key, want := range owners {
		if got := late.owner(key); got != want {
			t.Errorf("%s went from %s to %s", key, want, got)
		}
	}
}

// TestInstancesLost: a Valkey that loses only the list of the nodes, whose heartbeats are there, takes nobody out of the
// cluster either, also who does not write itself again soon.
func TestInstancesLost(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	a, b := start(t, config(t, s.URL(), member("a", 10))), start(t, seldom(t, s, member("b", 10)))
	a.sees(2)
	s.Do("DEL", "aqueduct:instances")
	for range 3 { // beats of a
		was := s.Get("aqueduct:instance:a")
		valkeytest.Until(t, func() error {
			if s.Get("aqueduct:instance:a") == was {
				return errors.New("the node has not written its heartbeat again")
			}
			return nil
		})
	}
	if r := a.Roster(); len(r.Members) != 2 || len(r.Left) > 0 {
		t.Errorf("the others are %+v, and %v have left; %s lives", r.Members, r.Left, b.Roster().Self.ID)
	}
}

// TestReadOnly: a server that takes no writes is as good as none, and says so itself.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"READONLY You can't write against a read only replica.", "OOM command not allowed", "NOPERM no permission"} {
		s := valkeytest.NewStub(t, func([]string) string { return valkeytest.Error(word) })
		n := start(t, config(t, s.URL(), member("a", 10)))
		n.unsettled(word)
		n.leave()
	}
}

// TestRefused: who is not let in is told why.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t, "--requirepass", "secret")
	for words, url := range map[string]string{
		"NOAUTH": "valkey://" + s.Addr, "WRONGPASS": "valkey://:guess@" + s.Addr, "DB index is out of range": "valkey://:secret@" + s.Addr + "/99",
	} {
		n := start(t, config(t, url, member("a", 10)))
		n.unsettled("valkey refuses: connect to valkey: " + words)
		n.leave()
	}
}

// TestRefusedAndGone: what Valkey has said before it went is no reason any more.
func TestRefusedAndGone(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t, "--requirepass", "secret")
	n := start(t, config(t, s.URL(), member("a", 10)))
	n.unsettled("NOAUTH")
	s.Kill()
	n.unsettled("has not answered yet")
}

// TestBadAnswers: whatever Valkey says, no call hangs and nothing breaks.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": valkeytest.Nothing, "cut": valkeytest.Cut, "hang": valkeytest.Hang, "ok": valkeytest.OK, "number": ":7\r\n",
		"empty": "*0\r\n", "odd": "*3\r\n$0\r\n\r\n:1\r\n*1\r\n$1\r\nx\r\n", "garbage": "*3\r\n$4\r\nnull\r\n:1\r\n*2\r\n$2\r\n{}\r\n$1\r\nx\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valkeytest.NewStub(t, func([]string) string { return answer })
			n := start(t, impatient(t, s.URL(), member("a", 10)))
			if name != "garbage" {
				n.unsettled("")
			} else {
				n.sees(1)
			}
			n.Place(t.Context(), "u", func() []cluster.Member { return []cluster.Member{member("a", 10)} })
			n.Release(t.Context(), "u", "a")
			n.leave()
		})
	}
}

func TestValkeyClusterNeedsAHashTag(t *testing.T) {
	t.Parallel()
	s := valkeytest.StartCluster(t)
	bare := start(t, config(t, s.URL(), member("a", 10)))
	bare.unsettled("needs a hash tag")
	c := config(t, s.URL(), member("b", 10))
	c.HashTag = "fleet"
	tagged := start(t, c)
	tagged.sees(1)
	if got := tagged.owner("u"); got != "b" {
		t.Errorf("owner %s", got)
	}
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	c := config(t, s.URL(), member("a", 10))
	v, err := valkey.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Announce(t.Context(), cluster.Active); !errors.Is(err, valkey.ErrNotRunning) {
		t.Errorf("got %v", err)
	}
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- v.Run(ctx) }()
		}
		if err := <-ended; !errors.Is(err, valkey.ErrRunning) {
			t.Errorf("the one that came second ends with %v", err)
		}
		(&node{View: v, t: t}).sees(1)
		cancel()
		if err := <-ended; err != nil || v.Roster().Unsettled == nil {
			t.Errorf("the first one ends with %v; %v", err, v.Roster().Unsettled)
		}
	}
}

// TestCutOff: a node that alone loses Valkey gives up its tenants when its heartbeat has ended, as the others
// do, and does not come back with what it knew.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Do("ACL", "SETUSER", "a", "on", ">secret", "~*", "+@all")
	c := config(t, "valkey://a:secret@"+s.Addr, member("a", 100))
	c.TTL = short
	a, b := start(t, c), start(t, config(t, s.URL(), member("b", 100)))
	a.sees(2)
	b.sees(2)
	var mine []string
	for i := range 40 {
		if key := strconv.Itoa(i); a.owner(key) == "a" {
			mine = append(mine, key)
		}
	}
	s.Do("ACL", "SETUSER", "a", "off")
	s.Do("CLIENT", "KILL", "USER", "a")
	a.unsettled("")
	b.sees(1)
	for _, key := range mine {
		if got := b.owner(key); got != "b" {
			t.Errorf("%s is %s's, which is gone", key, got)
		}
	}
	s.Do("ACL", "SETUSER", "a", "on")
	a.sees(2)
	for _, key := range mine {
		if got := a.owner(key); got != "b" {
			t.Errorf("%s is %s's to a node that was cut off, and b's to b", key, got)
		}
	}
}

// TestLittleRights: a user of Valkey with no more rights than the documentation asks for.
func TestLittleRights(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Do("ACL", "SETUSER", "a", "on", ">secret", "~aqueduct:*", "+@read", "+@write", "+@scripting", "+@connection", "+time")
	a := start(t, config(t, "valkey://a:secret@"+s.Addr, member("a", 100)))
	a.sees(1)
	a.owner("u")
	a.Release(t.Context(), "u", "a")
	a.leave()
	if a.Failures() != 0 {
		t.Errorf("%d calls failed", a.Failures())
	}
}

package valkey_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

func TestMain(m *testing.M) { valkeytest.Main(m) }

const (
	heartbeat = 200 * time.Millisecond
	// ttl is of nodes that are not to die while the machine is busy, short of those whose death is awaited: a third of it
	// is how long a word counts, and a process may stand still for less than that without being replaced.
	ttl   = 30 * time.Second
	short = 9 * time.Second
	// long is a timeout that a busy machine keeps.
	long = time.Minute
	// patience bounds how long a test waits for what must happen.
	patience = time.Minute
)

// node is one that runs, with a link of its own.
type node struct {
	*valkey.View
	t      *testing.T
	link   *link.Link
	cancel context.CancelFunc
	ended  chan struct{}
}

// member is an active node of that id with room for so many tenants.
func member(id string, capacity int) cluster.Member {
	return cluster.Member{ID: id, Address: "http://" + id + ":8080", State: cluster.Active, Capacity: capacity}
}

// config is that of a test's node, which a test may change.
func config(t *testing.T, url string, self cluster.Member) valkey.Config {
	t.Helper()
	return valkey.Config{Self: self, Link: linked(t, url, long), Heartbeat: heartbeat, TTL: ttl}
}

// linked leads to a Valkey, whose answers are waited for until timeout.
func linked(t testing.TB, url string, timeout time.Duration) *link.Link {
	t.Helper()
	l, err := link.New(link.Config{Target: link.Target{URL: url}, Timeout: timeout, Logger: nopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func nopLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func start(t *testing.T, c valkey.Config) *node {
	t.Helper()
	v, err := valkey.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{View: v, t: t, link: c.Link, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		if err := v.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(n.leave)
	return n
}

// leave ends the node in order.
func (n *node) leave() {
	n.cancel()
	<-n.ended
}

// kill ends the node as kill -9 does.
func (n *node) kill() {
	n.link.Close()
	n.leave()
}

// await waits until the roster is as it should be.
func (n *node) await(what string, good func(*cluster.Roster) bool) *cluster.Roster {
	n.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		changed := n.Changes()
		r := n.Roster()
		if good(r) {
			return r
		}
		select {
		case <-changed:
		case <-limit.C:
			n.t.Fatalf("not in %v: %s; the roster is %+v", patience, what, *r)
		}
	}
}

// sees waits until the node is settled among so many members.
func (n *node) sees(members int) {
	n.t.Helper()
	n.await(fmt.Sprintf("%d members", members), func(r *cluster.Roster) bool {
		return r.Unsettled == nil && len(r.Members) == members
	})
}

// owners is how a node finds owners.
func (n *node) owners() *cluster.Owners {
	return cluster.NewOwners(cluster.OwnersConfig{View: n, Placement: n})
}

// owner is the owner of a key as the node says, if need be when its view is settled again.
func (n *node) owner(key string) string {
	n.t.Helper()
	var o cluster.Owner
	valkeytest.Until(n.t, func() (err error) {
		o, err = n.owners().Of(n.t.Context(), key, nil)
		return err
	})
	return o.ID
}

// assigned is owner, once the node has heard it from Valkey: while that is slow, an impatient node guesses.
func (n *node) assigned(s *valkeytest.Server, key string) (owner string) {
	n.t.Helper()
	valkeytest.Until(n.t, func() error {
		owner = n.owner(key)
		if there := s.Get(assignmentOf(key)); there != owner {
			return fmt.Errorf("%s takes %s for the owner of %s, and to Valkey it is %q", n.Roster().Self.ID, owner, key, there)
		}
		return nil
	})
	return owner
}

// assignmentOf is where Valkey has the owner of a key.
func assignmentOf(key string) string {
	hash := sha256.Sum256([]byte(key))
	return "aqueduct:assignment:" + hex.EncodeToString(hash[:])
}

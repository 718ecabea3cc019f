package gossip_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
	"github.com/aquifer-fleet/aquifer/cluster/gossip/gossiptest"
)

// world is a network of nodes that join through one name, which has the addresses of all that run.
type world struct {
	*gossiptest.Network
	t   *testing.T
	cfg gossip.Config // what all nodes have in common

	// mu guards what is below it.
	mu     sync.Mutex
	hidden bool // the name is not known
	names  map[netip.Addr]bool
	nodes  map[string]*node
	dead   []*node // that were killed, and may not have ended
}

// node is one that runs.
type node struct {
	*gossip.View
	at       netip.Addr
	registry *prometheus.Registry
	log      *buffer
	stop     context.CancelFunc
	ended    chan error
}

var key = bytes.Repeat([]byte{7}, 32)

func newWorld(t *testing.T) *world {
	w := &world{
		Network: gossiptest.New(1), t: t, names: make(map[netip.Addr]bool), nodes: make(map[string]*node),
		cfg: gossip.Config{Join: []string{"fleet.test"}, Keys: [][]byte{key}},
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			n.stop()
			<-n.ended
		}
		for _, n := range w.dead {
			<-n.ended
		}
		if open := w.Open(); len(open) > 0 {
			t.Errorf("ports stay open: %v", open)
		}
		time.Sleep(gossip.Aftermath)
	})
	return w
}

func (w *world) resolve(context.Context, string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []netip.Addr
	for a := range w.names {
		list = append(list, a)
	}
	if w.hidden {
		return nil, nil
	}
	return list, nil
}

// hide makes the name unknown, or known again.
func (w *world) hide(hidden bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden = hidden
}

// run starts a node whose host is that of its address.
func (w *world) run(m cluster.Member, change func(*gossip.Config)) *node {
	w.t.Helper()
	u, err := url.Parse(m.Address)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{at: netip.MustParseAddr(u.Hostname()), registry: prometheus.NewRegistry(), log: new(buffer), ended: make(chan error, 1)}
	cfg := w.cfg
	cfg.Self = m
	if change != nil {
		change(&cfg)
	}
	n.View, err = gossip.New(cfg, gossip.Deps{
		Network: w.Host(n.at), Resolve: w.resolve, Registerer: n.registry,
		Logger: slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	w.mu.Lock()
	w.names[n.at] = true
	w.mu.Unlock()
	w.nodes[m.ID+"@"+n.at.String()] = n
	go func() { n.ended <- n.Run(ctx) }()
	return n
}

func (w *world) node(id string) *node {
	for _, n := range w.nodes {
		if n.Roster().Self.ID == id {
			return n
		}
	}
	w.t.Fatalf("nobody is called %s", id)
	return nil
}

// end stops a node that leaves; the name does not have its address any more.
func (w *world) end(n *node) {
	n.stop()
	<-n.ended
	w.forget(n)
}

func (w *world) forget(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.names, n.at)
	for k, other := range w.nodes {
		if other == n {
			delete(w.nodes, k)
		}
	}
}

// kill ends a node without a farewell.
func (w *world) kill(n *node) {
	w.Crash(n.at)
	n.stop()
	w.dead = append(w.dead, n)
	w.forget(n)
}

// Start, Leave and Kill are for the suite.
func (w *world) Start(_ *testing.T, m cluster.Member) cluster.View { return w.run(m, nil).View }
func (w *world) Leave(_ *testing.T, id string)                     { w.end(w.node(id)) }
func (w *world) Kill(_ *testing.T, id string)                      { w.kill(w.node(id)) }

// dropped is what a node's metrics say of a reason.
func (n *node) dropped(t *testing.T, reason string) float64 {
	families, err := n.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "aquifer_gossip_dropped_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// said are the lines of a node's log with a message.
func (n *node) said(message string) (lines []string) {
	for line := range strings.Lines(n.log.String()) {
		if strings.Contains(line, fmt.Sprintf("msg=%q ", message)) {
			lines = append(lines, line)
		}
	}
	return lines
}

// within waits until good holds, at most that long, and returns how long it took.
func within(t *testing.T, limit time.Duration, what string, good func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !good() {
		if time.Since(start) > limit {
			t.Fatalf("not in %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// buffer is a log.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run runs a view until the test ends.
func run(t *testing.T, v *gossip.View) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

package nodetest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/gossip/gossiptest"
	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
)

// Fleet is what runs in one bubble: a network, and on it nodes, servers and clients. It ends with its
// test.
type Fleet struct {
	Net *Network
	// Gossip is the network over which nodes gossip, if they do: by the addresses of their machines.
	Gossip *gossiptest.Network

	t  testing.TB
	mu sync.Mutex // guards what follows, as scenarios have many goroutines

	nodes      []*Node
	servers    []*Server
	transports []*http.Transport
}

// Run plays a scenario in a bubble of its own. At its end every node must become idle and stop with all
// its gauges at zero. play must use the t that it is given.
func Run(t *testing.T, play func(t *testing.T, f *Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &Fleet{Net: NewNetwork(), Gossip: gossiptest.New(1), t: t}
		defer f.close()
		play(t, f)
		f.settle()
	})
}

// settle lets all work end, if the scenario has left any.
func (f *Fleet) settle() {
	for _, n := range f.nodes {
		if !f.t.Failed() && n.Running() && !n.KeepsWork {
			n.WaitIdle()
		}
	}
}

// close stops everything.
func (f *Fleet) close() {
	for _, tr := range f.transports {
		tr.CloseIdleConnections()
	}
	for _, n := range f.nodes {
		n.close()
	}
	for _, s := range f.servers {
		s.Stop()
	}
}

// Node adds a node and starts it. edit changes its configuration.
func (f *Fleet) Node(name string, edit ...func(*node.Config)) *Node {
	f.t.Helper()
	n := f.NewNode(name, edit...)
	n.Start()
	return n
}

// NewNode adds a node that is not running.
func (f *Fleet) NewNode(name string, edit ...func(*node.Config)) *Node {
	f.t.Helper()
	cfg, _, err := node.FromEnv([]string{
		"AQUIFER_NODE_ID=" + name, "AQUIFER_LISTEN=:80", "DB_PATH=/data/aquifer.db", "AQUIFER_PEBBLE_CACHE_MB=8",
		"AQUIFER_MEMORY_LIMIT_MB=0", // it would be that of the tests' process
	}, name)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range edit {
		e(&cfg)
	}
	n := &Node{Name: name, Machine: f.Net.Machine(name + ".test"), Disk: NewDisk(), fleet: f, cfg: cfg}
	n.client = f.Client(n, "client-of-"+name+".test")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
	return n
}

// Target adds a server at name:80.
func (f *Fleet) Target(name string) *Server {
	s := NewServer(f.Net.Machine(name), "80")
	return f.Add(s)
}

// Receiver adds a receiver at name:80.
func (f *Fleet) Receiver(name string) *Receiver { return &Receiver{f.Target(name)} }

// Add makes a server end with the fleet.
func (f *Fleet) Add(s *Server) *Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = append(f.servers, s)
	return s
}

// Client returns a client of a node, on a machine of its own.
func (f *Fleet) Client(n *Node, machine string) *client.Client {
	f.t.Helper()
	c, err := client.New(n.URL(), f.Transport(machine))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// Transport speaks HTTP from a machine.
func (f *Fleet) Transport(machine string) http.RoundTripper {
	m := f.Net.Machine(machine)
	tr := &http.Transport{
		MaxIdleConnsPerHost: 1000, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return m.Process().Dial(ctx, network, address)
		},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.transports = append(f.transports, tr)
	return tr
}

// Until waits for a condition, and fails the test when it has not come true within limit. It looks
// often at first and then less and less, so that hours pass quickly.
func (f *Fleet) Until(limit time.Duration, what string, ok func() bool) {
	f.t.Helper()
	end := time.Now().Add(limit)
	for step := time.Millisecond; ; step = min(step*5/4+time.Millisecond, limit/200+time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
		left := time.Until(end)
		if left <= 0 {
			f.t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(min(step, left))
	}
}

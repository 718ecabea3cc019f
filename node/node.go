// Package node assembles one Aquifer node: the configuration, the parts, how they are wired, how
// they start and in which order they stop.
//
// New builds and starts nothing. Run takes the ports, opens the store, takes up all work that the last
// process left, serves, and returns when the node has stopped.
package node

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster/gossip"
)

// Deps are the seams between a node and the world. Zero fields mean the real thing.
type Deps struct {
	// Listen opens the node's port.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Dial opens every connection that the node makes; the egress guard holds in front of it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Gossip opens the ports at which nodes gossip.
	Gossip gossip.Network
	// FS is where the store lives.
	FS vfs.FS
	// Registry takes the node's metrics and serves them at /metrics.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Descriptors is how many files and connections the process may have open; 0 means that nothing is known.
	// An eighth of them may be idle connections to targets.
	Descriptors uint64
	// Rand is the source of the random part of job ids.
	Rand io.Reader
}

func (d Deps) withDefaults() Deps {
	if d.Listen == nil {
		var lc net.ListenConfig
		d.Listen = lc.Listen
	}
	if d.FS == nil {
		d.FS = vfs.Default
	}
	if d.Registry == nil {
		d.Registry = prometheus.NewRegistry()
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Rand == nil {
		d.Rand = rand.Reader
	}
	return d
}

// ErrStarted is the error of a second Run.
var ErrStarted = errors.New("node: already started")

// Node is one node. Its methods are safe for concurrent use.
type Node struct {
	cfg  Config
	deps Deps

	started  atomic.Bool
	draining atomic.Bool
	regime   atomic.Pointer[regime] // nil until there are queues to tell
	ready    chan struct{}          // closed when the doors are open
	addr     net.Addr               // set before ready is closed
}

// New returns a node that is not running. The error lists everything that is wrong with cfg.
func New(cfg Config, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Node{cfg: cfg, deps: deps.withDefaults(), ready: make(chan struct{})}, nil
}

// Ready is closed when the node serves.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Addr is the address that the node listens on; nil before Ready is closed.
func (n *Node) Addr() net.Addr {
	select {
	case <-n.ready:
		return n.addr
	default:
		return nil
	}
}

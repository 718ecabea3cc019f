package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// network has a link for each two places.
type network struct {
	// mu guards links.
	mu    sync.Mutex
	links map[[2]place]*link
}

func newNetwork() *network { return &network{links: make(map[[2]place]*link)} }

func (n *network) link(from, to place) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, ok := n.links[[2]place{from, to}]
	if !ok {
		l = newLink(from, to)
		n.links[[2]place{from, to}] = l
	}
	return l
}

// drop loses everything that goes from one place to the other, requests and answers. Connections stay open,
// and new ones are opened: what the other end does then cannot be told from a process that hangs.
func (n *network) drop(from, to place) error {
	there := n.link(from, to)
	there.mu.Lock()
	there.drop = true
	there.mu.Unlock()
	return n.both(from, to, "timeout", `{"timeout":0}`)
}

// slow delays everything that goes from one place to the other.
func (n *network) slow(from, to place, by time.Duration) error {
	there := n.link(from, to)
	there.mu.Lock()
	there.delay = by
	there.mu.Unlock()
	return n.both(from, to, "latency", fmt.Sprintf(`{"latency":%d}`, by.Milliseconds()))
}

// both gives a toxic to what one place sends to the other: as a caller, and as one that is called.
func (n *network) both(from, to place, kind, attributes string) error {
	if err := n.link(from, to).toxic(stream.Upstream, kind, attributes); err != nil {
		return err
	}
	return n.link(to, from).toxic(stream.Downstream, kind, attributes)
}

// lose loses a part of all packets, 0..1, between any two of the places.
func (n *network) lose(among []place, part float64) {
	for _, from := range among {
		for _, to := range among {
			l := n.link(from, to)
			l.mu.Lock()
			l.loss = part
			l.mu.Unlock()
		}
	}
}

// heal ends all faults.
func (n *network) heal(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.heal(ctx)
	}
}

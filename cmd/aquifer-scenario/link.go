package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/rs/zerolog"
)

// place is what a link ends at: a node by its id, or one of these.
type place string

const (
	client   place = "client"
	target   place = "target"
	receiver place = "receiver"
	valkey   place = "valkey"
)

// link is the way from one place to another: connections that the first has opened, and the packets that it
// sends. Toxiproxy does the faults of connections.
type link struct {
	server *toxiproxy.ApiServer
	toxics *toxiproxy.ToxicCollection
	conns  atomic.Int64 // numbers connections, for toxiproxy

	// mu guards the weather for packets.
	mu    sync.Mutex
	drop  bool
	delay time.Duration
	loss  float64 // 0..1
}

func newLink(from, to place) *link {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	return &link{server: server, toxics: toxiproxy.NewProxy(server, fmt.Sprintf("%s-%s", from, to), "", string(to)).Toxics}
}

// join carries bytes between the two ends of a connection until one of them is closed.
func (l *link) join(caller, called net.Conn) {
	name := fmt.Sprint(l.conns.Add(1))
	l.toxics.StartLink(l.server, name+"up", caller, called, stream.Upstream)
	l.toxics.StartLink(l.server, name+"down", called, caller, stream.Downstream)
}

// toxic adds a toxic to one direction of the connections, there and to come.
func (l *link) toxic(d stream.Direction, kind, attributes string) error {
	_, err := l.toxics.AddToxicJson(strings.NewReader(
		fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":%s}`, kind, d.String(), attributes)))
	if err != nil {
		return fmt.Errorf("toxic %s: %w", kind, err)
	}
	return nil
}

// heal ends all faults. Connections that have missed something are closed.
func (l *link) heal(ctx context.Context) {
	l.toxics.ResetToxics(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop, l.delay, l.loss = false, 0, 0
}

// packet says whether a packet arrives, and how late.
func (l *link) packet() (arrives bool, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.drop && rand.Float64() >= l.loss, l.delay
}

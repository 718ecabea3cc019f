package node

import (
	"context"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/registry"
)

// registration is the node's registration with a control plane, if it has one. What it lacks of one does
// not stop the node, so it runs beside everything else.
type registration struct {
	pings *registry.Registration // nil: there is no control plane
	leave context.CancelFunc
	left  chan error
}

// newRegistration returns the registration of a node whose API can be called at a port.
func (n *Node) newRegistration(out *egress.Client, port string) (*registration, error) {
	c := n.cfg.Registry
	if c.URL == "" {
		return &registration{}, nil
	}
	pings, err := registry.New(registry.Config{
		URL: c.URL, Port: port, Interval: c.Interval(), Withdrawal: min(registry.DefaultWithdrawal, n.cfg.ShutdownTimeout()/2),
		Transport: exchange{out}, Logger: n.deps.Logger, Registerer: n.deps.Registry,
	})
	return &registration{pings: pings}, err
}

// start has the node registered until withdraw.
func (r *registration) start() {
	if r.pings == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.leave, r.left = cancel, make(chan error, 1)
	go func() { r.left <- r.pings.Run(ctx) }()
}

// drain says that the node takes no new work. It does not wait.
func (r *registration) drain() {
	if r.pings != nil {
		r.pings.Drain()
	}
}

// withdraw says that the node is gone, after start.
func (r *registration) withdraw() error {
	if r.pings == nil {
		return nil
	}
	r.leave()
	return <-r.left
}

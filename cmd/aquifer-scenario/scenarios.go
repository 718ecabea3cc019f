package main

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// scenario is something that happens to a fleet under load.
type scenario struct {
	name  string
	about string
	short bool     // part of the short run
	with  []string // providers; nil: all
	nodes int      // that there can be; three of them run at first
	run   func(ctx context.Context, w *world) error
	// calm: clients may notice nothing: every call is answered with 2xx.
	calm bool
	// patience is how long a client may have to insist.
	patience time.Duration
}

const nodesAtFirst = 3

// scenarios are all, in the order in which they run.
func scenarios() []scenario {
	withValkey := []string{"valkey"}
	return slices.Concat(deaths(), []scenario{
		{
			name: "slow-2s", about: "what one node sends to the others is 2 s late for 12 s", short: true,
			run: slow(2*time.Second, 12*time.Second), patience: 12 * time.Second,
		},
		{
			name: "slow-12s", about: "what one node sends to the others is 12 s late for 20 s", short: true,
			run: slow(12*time.Second, 20*time.Second), patience: 45 * time.Second,
		},
		{
			name: "frozen", about: "one node is stopped with SIGSTOP for 20 s", short: true,
			run: frozen, patience: 40 * time.Second,
		},
		{
			name: "partition-one-way", about: "what one node sends to the others is lost for 15 s",
			run: partition(false), patience: 40 * time.Second,
		},
		{
			name: "partition", about: "one node and the others hear nothing of each other for 15 s", short: true,
			run: partition(true), patience: 40 * time.Second,
		},
		{
			name: "targets-cut", about: "one node reaches neither targets nor webhook receivers for 6 s",
			run: targetsCut, patience: 3 * time.Second, calm: true,
		},
		{
			name: "gossip-loss", about: "30 % of all packets of gossip are lost for 20 s", short: true, with: []string{"gossip"},
			run: gossipLoss, patience: 3 * time.Second, calm: true,
		},
		{
			name: "valkey-killed", about: "Valkey dies, is away for longer than a heartbeat lives, and comes back empty", short: true,
			with: withValkey, run: valkeyKilled, patience: 3 * time.Second, calm: true,
		},
		{
			name: "valkey-cut", about: "one node alone does not reach Valkey for 15 s, longer than its heartbeat lives", with: withValkey,
			run: valkeyCut, patience: 20 * time.Second,
		},
		{
			name: "valkey-paused", about: "Valkey is stopped with SIGSTOP for 3 s", with: withValkey,
			run: valkeyPaused, patience: 3 * time.Second, calm: true,
		},
	})
}

// deaths are the scenarios in which nodes end.
func deaths() []scenario {
	return []scenario{
		{
			name: "calm", about: "nothing happens",
			run: func(ctx context.Context, _ *world) error { return pause(ctx, 5*time.Second) }, patience: 2 * time.Second, calm: true,
		},
		{
			name: "kill", about: "two nodes are killed with -9 one after the other and started again", short: true,
			run: kill, patience: 15 * time.Second,
		},
		{
			name: "volume-lost", about: "a node is killed with -9 and comes back with an empty disk", short: true,
			run: volumeLost, patience: 15 * time.Second,
		},
		{
			name: "rolling", about: "each node in turn is stopped with SIGTERM and started again", short: true,
			run: rolling, patience: 5 * time.Second, calm: true,
		},
		{
			name: "killed-leaving", about: "a node is stopped with SIGTERM and killed with -9 while it hands its work over, three times",
			run: killedLeaving, patience: 15 * time.Second,
		},
		{
			name: "scale", about: "two nodes join, then three leave for good", short: true, nodes: 5,
			run: scale, patience: 5 * time.Second, calm: true,
		},
	}
}

func kill(ctx context.Context, w *world) error {
	if err := w.crash(ctx, w.members[1], 8*time.Second, false); err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	return w.crash(ctx, w.members[0], 8*time.Second, false)
}

func volumeLost(ctx context.Context, w *world) error {
	return w.crash(ctx, w.members[1], 8*time.Second, true)
}

func rolling(ctx context.Context, w *world) error {
	for _, m := range w.up() {
		if err := m.terminate(); err != nil {
			return err
		}
		if err := m.start(ctx); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// killedLeaving kills a node soon after the second in which it only refuses, when it hands its work over.
func killedLeaving(ctx context.Context, w *world) error {
	m := w.members[1]
	for _, after := range []time.Duration{1000 * time.Millisecond, 1050 * time.Millisecond, 1200 * time.Millisecond} {
		if err := m.signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := pause(ctx, after); err != nil {
			return err
		}
		if err := w.crash(ctx, m, 3*time.Second, false); err != nil {
			return err
		}
		if err := pause(ctx, 4*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func scale(ctx context.Context, w *world) error {
	if err := w.startNodes(ctx, w.members[nodesAtFirst:]...); err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	for _, m := range w.members[:nodesAtFirst] {
		if err := m.terminate(); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func slow(by, lasting time.Duration) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		from := w.members[1].id
		return w.during(ctx, lasting, func() error {
			for _, to := range w.others(from) {
				if err := w.net.slow(from, to, by); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func frozen(ctx context.Context, w *world) error {
	m := w.members[1]
	defer w.disturb("frozen", m.id)()
	if err := m.freeze(); err != nil {
		return err
	}
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	return m.thaw()
}

func partition(bothWays bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		from := w.members[1].id
		defer w.disturb("partition", from)()
		return w.during(ctx, 15*time.Second, func() error {
			for _, to := range w.others(from) {
				if err := w.net.drop(from, to); err != nil {
					return err
				}
				if !bothWays {
					continue
				}
				if err := w.net.drop(to, from); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func targetsCut(ctx context.Context, w *world) error {
	m := w.members[1]
	defer w.disturb("targets cut", m.id)()
	return w.during(ctx, 6*time.Second, func() error {
		for _, to := range []place{target, receiver} {
			if err := w.net.drop(m.id, to); err != nil {
				return err
			}
		}
		return nil
	})
}

func gossipLoss(ctx context.Context, w *world) error {
	return w.during(ctx, 20*time.Second, func() error {
		w.net.lose(w.places(), 0.3)
		return nil
	})
}

func valkeyKilled(ctx context.Context, w *world) error {
	w.valkey.kill()
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	return w.valkey.start(ctx)
}

// valkeyCut keeps one node from Valkey, and it alone. That must make no job run twice.
func valkeyCut(ctx context.Context, w *world) error {
	m := w.members[1]
	return w.during(ctx, 3*instanceTTL, func() error { return w.net.drop(m.id, valkey) })
}

func valkeyPaused(ctx context.Context, w *world) error {
	if err := w.valkey.freeze(); err != nil {
		return err
	}
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	return w.valkey.thaw()
}
